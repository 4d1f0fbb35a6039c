"""The groups of one window before anybody has made lists of them: pairs as columns, and their keys.

Takes pairs, of one shape or of several, in the order of their coming; numbers their keys when it is
asked. Knows no step and no function.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from headrace.worker.batched.column_batches import RowNumbers
from headrace.worker.batched.column_groups import group_columns
from headrace.worker.columns.values import ColumnValues, concatenate

#: Radix sort, ten times as fast, is there for numbers of 16 bits.
_SHORT = 1 << 16


class Side(NamedTuple):
    """Values of one window, key by key."""

    keys: ColumnValues  # of each value
    values: ColumnValues
    numbers: RowNumbers  # of the keys, in order
    counts: RowNumbers  # for each key, how many values it has

    @property
    def starts(self) -> RowNumbers:
        """For each key, where its values begin."""
        return np.cumsum(self.counts) - self.counts


class KeyedRows:
    """Pairs of one window.

    Args:
        parts: the pairs, those of one shape together; keys are all of one shape.
    """

    def __init__(self, parts: Sequence[ColumnValues]) -> None:
        self.parts = parts

    @cached_property
    def _numbered(self) -> tuple[int, list[RowNumbers]]:
        found = group_columns(concatenate([part.part(0) for part in self.parts]), None)
        ends = [0, *accumulate(map(len, self.parts))]
        numbers = [
            found.numbers[a:b] for a, b in zip(ends, ends[1:], strict=False)
        ]
        return len(found), numbers

    def __len__(self) -> int:
        """How many keys there are."""
        return self._numbered[0]

    def side(self, place: int, chosen: RowNumbers | None, values: ColumnValues) -> Side:
        """Give the values of a part, or of some of its rows, in the order of their keys' numbers.

        Args:
            place: of the part.
            chosen: rows of it, in order; None: all.
            values: of all rows of the part.
        """
        size, every = self._numbered
        numbers = every[place] if chosen is None else every[place][chosen]
        short = numbers.astype(np.uint16) if size <= _SHORT else numbers
        order = np.argsort(short, kind="stable")  # of a key in the order of their coming
        rows = order if chosen is None else chosen[order]
        counts = np.bincount(numbers, minlength=size)
        return Side(
            self.parts[place].part(0).take(rows), values.take(rows), numbers[order], counts
        )


class Pairing(NamedTuple):
    """Which rows of two sides meet: all those of one key, the outer ones one after the other."""

    outer: Side
    inner: Side

    def ends(self) -> RowNumbers:
        """For each row of the outer side, how many pairs there are up to its last one."""
        return np.cumsum(self.inner.counts[self.outer.numbers])

    def rows(self, ends: RowNumbers, start: int, stop: int) -> tuple[RowNumbers, RowNumbers]:
        """Give the rows of both sides for the pairs from one number to before another."""
        first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
        of_outer = np.arange(first, last + 1)
        before = np.concatenate([[0], ends])[first : last + 2]
        begins, stops = np.maximum(before[:-1], start), np.minimum(before[1:], stop)
        outer = np.repeat(of_outer, stops - begins)
        base = self.inner.starts[self.outer.numbers[first : last + 1]] - before[:-1]
        inner = np.arange(start, stop) + np.repeat(base, stops - begins)
        return outer, inner


