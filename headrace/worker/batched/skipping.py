"""Values that change no accumulator are found on columns; the CombineFn is given the others.

Takes pairs as columns, dealt out to groups, and the tables their accumulators stand in. Decides
which values become objects; what they are added by, the caller says. Knows no windows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np

from headrace.plan.combines import Looks, SkippingCombine
from headrace.plan.shapes import TupleShape, certain
from headrace.worker.batched.column_batches import RowNumbers
from headrace.worker.batched.column_groups import Groups, in_groups
from headrace.worker.beam_types import CombineFn, Key, OfOne, Value
from headrace.worker.checks.verified_columns import verify_accumulator
from headrace.worker.columns.column import Mask
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues, of_objects

#: Rows that a group must have on average for its accumulator to be looked at.
LEAST_ROWS = 8
#: Values that are added before the others are looked at again, and how many times more the next
#: time: an accumulator that has seen some values passes over most of the others.
FIRST_ROWS = 64
_GROWTH = 8
#: Looks at a batch after which most values must have been passed over; else all others are added.
_LOOKS = 3
#: Batches that are not looked at after one of which most values were added; twice as many after
#: the next such one, up to the most.
FIRST_PAUSE, MOST_PAUSE = 16, 1_024

#: The accumulators of keys.
Table = dict[Key, Value]


class Skipping:
    """Adds the values that may change something.

    Args:
        combine: which values do.
        fn: makes accumulators.
        add: adds values of keys to the accumulators of a table.
        verify_for: the name of the step, if all values are to be added too, and compared.
    """

    def __init__(
        self,
        combine: SkippingCombine,
        fn: CombineFn,
        add: Callable[[Table, dict[Key, list[Value]]], None],
        *,
        verify_for: str | None = None,
    ) -> None:
        self._combine = combine
        self._changes = kernel_of(combine.changes)
        self._create = fn.create_accumulator
        self._look: Callable[[Value], Value] | None = None
        self._plain: Callable[[Value], Value] = lambda accumulator: accumulator
        if combine.looks is Looks.LEAST:
            self._look, self._plain = _least_of(fn), fn.compact
        self._add = add
        self._verify_for = verify_for
        self._added = 0  # of the values of a batch
        self._pause, self._paused = FIRST_PAUSE, 0  # batches: the next time, and still now

    def fitted(self, values: ColumnValues) -> ColumnValues | None:
        """Give values as they can be looked at; None: they are others, or not worth it."""
        wanted = self._combine.value
        if self._paused:
            self._paused -= 1
            return None
        if values.shape == wanted:
            return values
        if certain(values.shape) != wanted:
            return None
        if any(leaf.missing is not None for leaf in values.leaves):
            return None
        return ColumnValues(wanted, values.leaves, len(values))

    def add(
        self, values: ColumnValues, groups: Groups, tables: Sequence[Sequence[Table]]
    ) -> None:
        """Add values.

        Args:
            values: of all groups.
            groups: who belongs to which.
            tables: for each group, the tables that it has an accumulator in, one for each window.
        """
        self._added, looked = 0, 0
        for turn in range(max(map(len, tables))):
            its = [found[turn] if turn < len(found) else None for found in tables]
            rows = np.arange(len(values))
            if any(table is None for table in its):
                there = np.array([table is not None for table in its])
                rows = rows[there[groups.numbers]]
            looked += len(rows)
            for table, key in zip(its, groups.keys, strict=True):
                if table is not None and key not in table:
                    table[key] = self._create()
            if self._verify_for is None:
                self._fold(values, rows, groups, its)
            else:
                self._fold_verified(self._verify_for, values, rows, groups, its)
        if 2 * self._added <= looked:
            self._pause = FIRST_PAUSE
        else:
            self.rest()

    def rest(self) -> None:
        """Look at no batch for a while: the last was not worth it."""
        self._paused, self._pause = self._pause, min(2 * self._pause, MOST_PAUSE)

    def _fold(
        self, values: ColumnValues, rows: RowNumbers, groups: Groups, tables: list[Table | None]
    ) -> None:
        size, looks = FIRST_ROWS, 0
        while len(rows):
            before = len(rows)
            rows = rows[self._may_change(values, rows, groups, tables)]
            looks += 1
            if looks >= _LOOKS and 2 * len(rows) > before:
                size = len(rows)
            first, rows = rows[:size], rows[size:]
            size *= _GROWTH
            self._added += len(first)
            self._give(values, first, groups, tables)

    def _may_change(
        self, values: ColumnValues, rows: RowNumbers, groups: Groups, tables: list[Table | None]
    ) -> Mask:
        """Find the rows that may change the accumulator of their group as it is now."""
        shape = self._combine.shape
        nothing = self._create()
        keyed = zip(tables, groups.keys, strict=True)
        seen = [nothing if table is None else table[key] for table, key in keyed]
        held = of_objects(seen if self._look is None else list(map(self._look, seen)), shape)
        if held is None:  # an accumulator is of other types than the first one was
            return np.ones(len(rows), np.bool_)
        asked = values if len(rows) == len(values) else values.take(rows)
        numbers = groups.numbers[rows]
        leaves = [*(leaf.take(numbers) for leaf in held.leaves), *asked.leaves]
        outcome = self._changes(
            ColumnValues(TupleShape((shape, asked.shape)), leaves, len(rows))
        )
        assert outcome.keep is not None
        found = outcome.keep.copy()
        if outcome.back is not None:
            found[outcome.back] = True
        return found

    def _give(
        self, values: ColumnValues, rows: RowNumbers, groups: Groups, tables: list[Table | None]
    ) -> None:
        if not len(rows):
            return
        places, ends = in_groups(groups.numbers[rows], len(groups))
        found = values.take(rows[places]).objects()
        begin = 0
        for table, key, end in zip(tables, groups.keys, ends, strict=True):
            if end > begin:
                assert table is not None
                self._add(table, {key: found[begin:end]})
            begin = end

    def _fold_verified(
        self, step: str, values: ColumnValues, rows: RowNumbers, groups: Groups,
        tables: list[Table | None],
    ) -> None:
        """Add all values to copies of the accumulators, too."""
        keyed = zip(tables, groups.keys, strict=True)
        copies = [None if t is None else {key: copy.deepcopy(t[key])} for t, key in keyed]
        self._give(values, rows, groups, copies)
        self._fold(values, rows, groups, tables)
        for wanted, table, key in zip(copies, tables, groups.keys, strict=True):
            if wanted is not None and table is not None:
                pair = (self._plain(wanted[key]), self._plain(table[key]))
                verify_accumulator(step, key, *pair)


def _least_of(fn: CombineFn) -> OfOne:
    """Give what finds in an accumulator of Beam's Top by what its last value is ranked."""
    most, key = fn._n, fn._key  # noqa: SLF001 (they have no public door)

    def least(accumulator: Value) -> Value:
        holds_comparables, heap = accumulator
        if most < 1 or len(heap) < most:
            return None  # the next value comes in, whatever it is
        last = heap[0].value if holds_comparables else heap[0]
        return last if key is None else key(last)

    return least
