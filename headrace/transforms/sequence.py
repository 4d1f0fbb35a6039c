"""What an ordered processor knows of one key: which number comes next, and what waits for it.

Pure bookkeeping without Beam: `ordered_processor.py` keeps it in state. Numbers that wait are kept
as spans, so that a number that came before is known without looking at what waits. Values wait in
`near`, by number, and from the number `fence` on in a far heap that the caller keeps in no order.
Near is bounded: the far heap is read only when near has run dry, and an eighth of it or more is
then taken over.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import Any

Numbered = tuple[int, Any]

#: Near is cut when it grows beyond this. More makes each key's state longer to read and write in
#: every bundle, fewer lets the far heap be read more often.
NEAR_MOST = 512
_TAKE_LEAST = NEAR_MOST // 2
_TAKE_SHARE = 8


class Arrival(Enum):
    """What to do with an element by its number."""

    WAITS = "waits"  # numbers before it are missing
    DUPLICATE = "duplicate"  # its number was there before
    AHEAD = "ahead"  # too many numbers may be missing before it


class Waiting:
    """What waits of one key: everything behind the first number that is missing."""

    __slots__ = ("ends", "fence", "near", "starts")

    def __init__(
        self,
        near: dict[int, Any] | None = None,
        fence: int | None = None,
        starts: list[int] | None = None,
        ends: list[int] | None = None,
    ) -> None:
        self.near: dict[int, Any] = {} if near is None else near
        self.fence = fence  # numbers from here on are far; None: none is
        self.starts: list[int] = [] if starts is None else starts  # of the spans that are there
        self.ends: list[int] = [] if ends is None else ends  # the first number behind each

    def plain(self) -> tuple[Any, ...]:
        """Give the arguments that make these books again."""
        return self.near, self.fence, self.starts, self.ends

    def __bool__(self) -> bool:
        return bool(self.starts)

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts)

    def arrival(self, number: int, following: int, most: int) -> Arrival:
        """Decide about a number that does not come next.

        Args:
            number: of the element.
            following: the number that comes next.
            most: how far ahead of it numbers may be.
        """
        if number < following:
            return Arrival.DUPLICATE
        if number - following > most:
            return Arrival.AHEAD
        at = bisect_right(self.starts, number)
        return Arrival.DUPLICATE if at and number < self.ends[at - 1] else Arrival.WAITS

    def put(self, number: int, value: Any) -> list[Numbered]:
        """Let a value wait; gives what the caller must add to the far heap."""
        self._note(number)
        if self.fence is not None and number >= self.fence:
            return [(number, value)]
        near = self.near
        near[number] = value
        if len(near) <= NEAR_MOST:
            return []
        far = [(other, near.pop(other)) for other in sorted(near)[_TAKE_LEAST:]]
        self.fence = far[0][0]
        return far

    def _note(self, number: int) -> None:
        starts, ends = self.starts, self.ends
        at = bisect_right(starts, number)
        joins_left = at > 0 and ends[at - 1] == number
        joins_right = at < len(starts) and starts[at] == number + 1
        if joins_left and joins_right:
            ends[at - 1] = ends[at]
            del starts[at], ends[at]
        elif joins_left:
            ends[at - 1] = number + 1
        elif joins_right:
            starts[at] = number
        else:
            starts.insert(at, number)
            ends.insert(at, number + 1)

    def must_load(self, following: int) -> bool:
        """Whether the next value is here, and far."""
        return bool(self.starts) and self.starts[0] == following and following not in self.near

    def load(self, far: list[Numbered]) -> list[Numbered]:
        """Take over the first values of the far heap; gives those that stay there."""
        far.sort(key=_number)
        cut = max(_TAKE_LEAST, len(far) // _TAKE_SHARE)
        self.near.update(far[:cut])
        rest = far[cut:]
        self.fence = rest[0][0] if rest else None
        return rest

    def take(self, following: int) -> list[Any]:
        """Take out the near values that come next, one after the other."""
        if not self.starts or self.starts[0] != following:
            return []
        near, end = self.near, self.ends[0]
        found = []
        while following < end and following in near:
            found.append(near.pop(following))
            following += 1
        if following == end:
            del self.starts[0], self.ends[0]
        else:
            self.starts[0] = following
        return found


def _number(entry: Numbered) -> int:
    return entry[0]
