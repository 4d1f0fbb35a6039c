"""Accumulators as columns: how those of one key and window become one, number by number.

Takes pairs of keys and accumulators as columns, with a number for the windows of each, and gives
one accumulator for each window and key. Knows the arithmetic of whole numbers alone: a sum that
might need more than 64 bits has no column, and is left to objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from headrace.plan.shapes import ScalarKind, Shape, TupleShape
from headrace.worker.batched.column_batches import RowNumbers
from headrace.worker.batched.column_groups import (
    GroupColumns,
    Numbers,
    greatest,
    group_columns,
    least,
    sums,
)
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues, concatenate

#: Rows that are held before they are merged for the first time.
FIRST_MERGE = 200_000


class Reduce(Enum):
    """How the numbers of several accumulators become that of one."""

    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"


_REDUCE: dict[Reduce, Callable[[Numbers, RowNumbers, int], Numbers | None]] = {
    Reduce.SUM: sums,
    Reduce.LEAST: least,
    Reduce.GREATEST: greatest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulators:
    """What the accumulators of a combine are made of."""

    shape: Shape  # of one; all its leaves are whole numbers
    reduces: tuple[Reduce, ...]  # for each leaf


def reduced(
    numbers_of: Sequence[Numbers], reduces: Sequence[Reduce], groups: RowNumbers, count: int
) -> list[Numbers] | None:
    """Give each leaf's numbers, one for each group; None if one might need more than 64 bits."""
    found: list[Numbers] = []
    for numbers, how in zip(numbers_of, reduces, strict=True):
        made = _REDUCE[how](numbers, groups, count)
        if made is None:
            return None
        found.append(made)
    return found


def keyed(keys: ColumnValues, shape: Shape, numbers: Sequence[Numbers]) -> ColumnValues:
    """Give pairs of keys and accumulators."""
    leaves = [*keys.leaves, *(Column(ScalarKind.INT, of_leaf) for of_leaf in numbers)]
    return ColumnValues(TupleShape((keys.shape, shape)), leaves, len(keys))


class Held(NamedTuple):
    """Pairs of keys and accumulators, with a number that stands for the windows of each."""

    pairs: ColumnValues
    windows: Numbers | None  # None: all are in the same


class Partials:
    """Accumulators that wait for others of their keys; merged when they have become many."""

    def __init__(self, accumulators: Accumulators) -> None:
        self._reduces = accumulators.reduces
        self._held: list[Held] = []
        self._limit = FIRST_MERGE
        self._wide = False  # a sum might need more than 64 bits: nothing is merged any more
        self.rows = 0

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, pairs: ColumnValues, windows: Numbers | None) -> None:
        """Take more; keys and accumulators are of one shape."""
        self._held.append(Held(pairs, windows))
        self.rows += len(pairs)
        if self.rows >= self._limit and not self._wide:
            self.merge()

    def merge(self) -> bool:
        """Make one of all that belong together; False: a sum might not fit, all stay as they are.

        So each row is merged a few times, however many come.
        """
        if not self._held:
            return True
        whole = self.joined()
        groups = group_columns(whole.pairs.part(0), whole.windows)
        self._held = [whole]
        if len(groups) < len(whole.pairs):
            made = self._merged(whole.pairs, groups)
            if made is None:
                self._wide = True
                return False
            self._held = [Held(made, groups.starts)]
            self.rows = len(made)
        self._limit = max(FIRST_MERGE, 2 * self.rows)
        return True

    def joined(self) -> Held:
        """Give all that is held, in the order of its coming."""
        if len(self._held) == 1:
            return self._held[0]
        windows = [held.windows for held in self._held if held.windows is not None]
        return Held(
            concatenate([held.pairs for held in self._held]),
            np.concatenate(windows) if windows else None,
        )

    def take(self) -> Held:
        """Give all that is held, and forget it."""
        whole = self.joined()
        self._held, self.rows, self._limit, self._wide = [], 0, FIRST_MERGE, False
        return whole

    def _merged(self, pairs: ColumnValues, groups: GroupColumns) -> ColumnValues | None:
        found = pairs.part(1)
        numbers = reduced(
            [leaf.data for leaf in found.leaves], self._reduces, groups.numbers, len(groups)
        )
        return None if numbers is None else keyed(groups.keys, found.shape, numbers)
