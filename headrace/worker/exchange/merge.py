"""Merges super tuples by the order numbers of their elements.

Rows come sorted by their least number, so all that lies below the least number of the newest row is
whole: nothing that could still come belongs before it. What is not whole is held. Rows that do not
overlap with others pass as they are, and cost nothing. Knows numbers, not what elements mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from headrace.errors import TransportError
from headrace.worker.exchange.order_numbers import Numbers, is_sorted

C = TypeVar("C")


class Merged(NamedTuple, Generic[C]):
    """Elements in order."""

    numbers: Numbers
    content: C


class Merger(Generic[C]):
    """Puts the elements of rows into order.

    Args:
        concat: puts the contents of several rows behind one another.
        take: gives the elements at these places, as a content of their own.
    """

    def __init__(
        self, concat: Callable[[list[C]], C], take: Callable[[C, list[int]], C]
    ) -> None:
        self._concat = concat
        self._take = take
        self._held: list[Merged[C]] = []
        self._count = 0  # elements held
        self._next_look = 0  # as many must be held before it pays to merge again
        self._bound: int | None = None  # the least number of the last row

    @property
    def held(self) -> int:
        """How many elements wait for their place."""
        return self._count

    def add(self, numbers: Numbers, content: C) -> Iterator[Merged[C]]:
        """Take a row; give what is whole now."""
        if not is_sorted(numbers):
            order = sorted(range(len(numbers)), key=numbers.__getitem__)
            numbers, content = [numbers[i] for i in order], self._take(content, order)
        bound = numbers[0]
        if self._bound is not None and bound < self._bound:
            msg = f"rows came out of order: {bound:#x} after {self._bound:#x}"
            raise TransportError(msg)
        self._bound = bound
        if self._held and self._held[-1].numbers[-1] < bound and len(self._held) == 1:
            yield self._held.pop()
            self._count = 0
        elif self._held and self._count >= self._next_look:
            yield from self._release(bound)
        self._held.append(Merged(numbers, content))
        self._count += len(numbers)

    def flush(self) -> Iterator[Merged[C]]:
        """Nothing more comes: give all that is held."""
        yield from self._release(None)
        self._bound, self._next_look = None, 0

    def _release(self, bound: int | None) -> Iterator[Merged[C]]:
        held, self._held, self._count = self._held, [], 0
        if not held:
            return
        merged = held[0] if len(held) == 1 else self._merge(held)
        size = len(merged.numbers)
        whole = size if bound is None else bisect_left(merged.numbers, bound)
        if whole == size:
            yield merged
        else:
            if whole:
                yield self._part(merged, 0, whole)
            self._held = [self._part(merged, whole, size)]
            self._count = size - whole
        # Merging costs what is held; so wait until as much has come as was left.
        self._next_look = 2 * self._count

    def _merge(self, held: list[Merged[C]]) -> Merged[C]:
        if all(a.numbers[-1] <= b.numbers[0] for a, b in zip(held, held[1:], strict=False)):
            numbers: list[int] = [n for row in held for n in row.numbers]
            return Merged(numbers, self._concat([row.content for row in held]))
        numbers = [n for row in held for n in row.numbers]
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        content = self._take(self._concat([row.content for row in held]), order)
        return Merged([numbers[i] for i in order], content)

    def _part(self, merged: Merged[C], start: int, end: int) -> Merged[C]:
        return Merged(
            merged.numbers[start:end], self._take(merged.content, list(range(start, end)))
        )
