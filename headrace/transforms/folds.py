"""The combine functions of the reducing operators: pure, associative, no Beam but its base class.

An accumulator is a plain tuple or None, which travels faster than an object would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam


class Fold(beam.CombineFn):  # type: ignore[misc]
    """A value, folded by the user's functions, and the number of elements in it."""

    def __init__(
        self,
        initial: Any,
        reducer: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
    ) -> None:
        self._initial = initial
        self._reducer = reducer
        self._merge = merge

    def create_accumulator(self) -> tuple[Any, int]:
        """Begin with nothing counted."""
        return self._initial, 0

    def add_input(self, accumulator: tuple[Any, int], element: Any) -> tuple[Any, int]:
        """Fold one element in."""
        return self._reducer(element, accumulator[0]), accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, int]]) -> tuple[Any, int]:
        """Merge the values; one without elements holds only `initial` and is left out."""
        found = None
        for value, count in accumulators:
            if count == 0:
                continue
            if found is None:
                found = value, count
            else:
                found = self._merge(found[0], value), found[1] + count
        return (self._initial, 0) if found is None else found

    def extract_output(self, accumulator: tuple[Any, int]) -> tuple[Any, int]:
        """Give value and count."""
        return accumulator


class Mean(beam.CombineFn):  # type: ignore[misc]
    """The mean of numbers; whole numbers are added without rounding."""

    def create_accumulator(self) -> tuple[Any, int]:
        """Begin with nothing counted."""
        return 0, 0

    def add_input(self, accumulator: tuple[Any, int], number: Any) -> tuple[Any, int]:
        """Add one number."""
        return accumulator[0] + number, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, int]]) -> tuple[Any, int]:
        """Add sums and counts."""
        total: Any = 0
        counted = 0
        for part, count in accumulators:
            total += part
            counted += count
        return total, counted

    def extract_output(self, accumulator: tuple[Any, int]) -> float:
        """Divide; a group without elements never gets here, but Beam may ask for its default."""
        total, counted = accumulator
        return total / counted if counted else float("nan")


class Extreme(beam.CombineFn):  # type: ignore[misc]
    """The element with the greatest rank, or the least; among equals the greatest or least itself.

    An accumulator is (rank, element), or None before the first.
    """

    def __init__(self, rank: Callable[[Any], Any], choose: Callable[..., Any]) -> None:
        self._rank = rank
        self._choose = choose  # max or min

    def create_accumulator(self) -> tuple[Any, Any] | None:
        """Begin with no element."""
        return None

    def add_input(self, accumulator: tuple[Any, Any] | None, element: Any) -> tuple[Any, Any]:
        """Let one element compete."""
        new = self._rank(element), element
        if accumulator is None:
            return new
        return self._choose(accumulator, new)  # type: ignore[no-any-return]

    def merge_accumulators(
        self, accumulators: Iterable[tuple[Any, Any] | None]
    ) -> tuple[Any, Any] | None:
        """Let the winners compete."""
        there = [found for found in accumulators if found is not None]
        return self._choose(there) if there else None

    def extract_output(self, accumulator: tuple[Any, Any] | None) -> Any:
        """Give the element."""
        return None if accumulator is None else accumulator[1]
