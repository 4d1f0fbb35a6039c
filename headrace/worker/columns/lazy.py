"""A column that is made when somebody asks for its values: a field that nobody reads costs nothing.

Parts of it are such columns too; they share what they are parts of, so that it is made once.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.shapes import ScalarKind
from headrace.worker.columns.column import Column, Data, Mask, Positions, Reader


class LazyColumn(Column):
    """A column that is not made yet.

    Args:
        kind: of its values.
        size: how many there are.
        make: makes it; called once at most.
    """

    __slots__ = ("_made", "_make", "_size")
    _made: Column | None
    _make: Callable[[], Column]
    _size: int

    def __init__(self, kind: ScalarKind, size: int, make: Callable[[], Column]) -> None:
        # The class it stands in for is frozen; what changes here is seen by nobody.
        for name, value in (("kind", kind), ("_size", size), ("_make", make), ("_made", None)):
            object.__setattr__(self, name, value)

    def made(self) -> Column:
        """The column itself."""
        found = self._made
        if found is None:
            found = self._make()
            object.__setattr__(self, "_made", found)
            object.__setattr__(self, "_make", None)  # what it was made of need not be kept
        return found

    @property
    def is_made(self) -> bool:
        """Whether somebody has asked already."""
        return self._made is not None

    def __len__(self) -> int:
        return self._size

    @property
    def data(self) -> Data:
        """The values."""
        return self.made().data

    @property
    def missing(self) -> Mask | None:
        """Which of them are missing."""
        return self.made().missing

    @property
    def read(self) -> Reader | None:
        """What makes objects of them."""
        return self.made().read

    def take(self, positions: Positions) -> Column:
        """The values at these positions."""
        if self._made is not None:
            return self.made().take(positions)
        return LazyColumn(self.kind, len(positions), lambda: self.made().take(positions))

    def filter(self, mask: Mask) -> Column:
        """The values where the mask is true."""
        if self._made is not None:
            return self.made().filter(mask)
        return LazyColumn(self.kind, int(mask.sum()), lambda: self.made().filter(mask))

    def slice(self, start: int, stop: int) -> Column:
        """The values from one position to before another."""
        if self._made is not None:
            return self.made().slice(start, stop)
        size = max(stop - start, 0)
        return LazyColumn(self.kind, size, lambda: self.made().slice(start, stop))
