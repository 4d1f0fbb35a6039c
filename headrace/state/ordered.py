"""Names in order, for the rows an epoch has written.

Keeps byte strings sorted under additions and removals, in pieces, so that one name more costs the
same however many there are. Knows nothing of values and stores.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

#: Names in a piece. Smaller: more pieces to search; larger: more to move for each new name.
_PIECE = 512
#: When one name in this many is new, sorting everything is cheaper than placing each.
_SORT_ALL_FROM = 8


class OrderedNames:
    """A sorted set of names."""

    def __init__(self) -> None:
        self._pieces: list[list[bytes]] = []  # none is empty
        self._lasts: list[bytes] = []  # the last name of each piece
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            yield from piece

    def add(self, names: Sequence[bytes]) -> None:
        """Add names that are not in it yet."""
        if len(names) * _SORT_ALL_FROM > self._count:
            everything = [*self, *names]
            everything.sort()
            starts = range(0, len(everything), _PIECE)
            self._pieces = [everything[start : start + _PIECE] for start in starts]
            self._lasts = [piece[-1] for piece in self._pieces]
        else:
            for name in names:
                self._place(name)
        self._count += len(names)

    def discard(self, name: bytes) -> None:
        """Take a name out, if it is in."""
        at = bisect_left(self._lasts, name)
        if at == len(self._lasts):
            return
        piece = self._pieces[at]
        inside = bisect_left(piece, name)
        if piece[inside] != name:
            return
        del piece[inside]
        self._count -= 1
        if not piece:
            del self._pieces[at], self._lasts[at]
        else:
            self._lasts[at] = piece[-1]

    def some(self, start: bytes, end: bytes, most: int) -> list[bytes]:
        """Give the first names with start <= name < end, at most so many."""
        at = bisect_left(self._lasts, start)
        if at == len(self._lasts):
            return []
        inside = bisect_left(self._pieces[at], start)
        found: list[bytes] = []
        while at < len(self._pieces) and len(found) < most:
            found += self._pieces[at][inside : inside + most - len(found)]
            if found[-1] >= end:
                del found[bisect_left(found, end) :]
                break
            at, inside = at + 1, 0
        return found

    def walk(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """Give the names of a range one by one; names may come and go meanwhile."""
        most = 8  # many scans want the first row only
        while True:
            found = self.some(start, end, most)
            yield from found
            if len(found) < most:
                return
            start = found[-1] + b"\0"  # the least name after it
            most = min(most * 4, _PIECE)

    def _place(self, name: bytes) -> None:
        at = min(bisect_left(self._lasts, name), len(self._lasts) - 1)
        piece = self._pieces[at]
        insort(piece, name)
        self._lasts[at] = piece[-1]
        if len(piece) > 2 * _PIECE:
            self._pieces[at : at + 1] = [piece[:_PIECE], piece[_PIECE:]]
            self._lasts[at : at + 1] = [piece[_PIECE - 1], piece[-1]]
