"""Makes windows out of slices whose accumulators are columns.

Takes the merged accumulators of slices and of single windows, gives those of one window after the
other. Knows no store and no wire; `slices` does the same for objects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.clocks import MAX_TIME
from headrace.plan.shapes import Shape
from headrace.plan.slices import Slices
from headrace.worker.batched.accumulators import Accumulators, Reduce, keyed
from headrace.worker.batched.column_groups import Numbers, group_columns
from headrace.worker.columns.values import ColumnValues, concatenate
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.grouping.column_tables import OF_TWO, ColumnTables, together
from headrace.worker.grouping.slices import ends_between

#: Slices of one window that are merged anew for each: of more, objects merge fewer.
MOST_SLICES = 8
#: A table of slices by keys may have so many places for each accumulator.
_CELLS_PER_ROW = 2


def windows_of_slices(
    merged: dict[Span, ColumnValues],
    slices: Slices,
    columns: ColumnTables,
    after: int,
    until: int = MAX_TIME,
) -> list[tuple[Span, ColumnValues]] | None:
    """Give the windows that end after one moment, until another, in the order of their ends.

    None: objects have to do it, as windows have many slices or a sum might not fit.
    """
    if slices.count > MOST_SLICES or columns.merging is None:
        return None
    of_slices = {s[0]: found for s, found in merged.items() if s[1] - s[0] == slices.period}
    singles = {s[1]: found for s, found in merged.items() if s[1] - s[0] != slices.period}
    ends = ends_between(sorted(of_slices), slices, after, until)
    table = _table_of(of_slices, columns.merging.accumulators, slices.count)
    found: list[tuple[Span, ColumnValues]] = []
    for end in sorted({*ends, *(e for e in singles if after < e <= until)}):
        begin = end - slices.size
        if table is not None and end not in singles:
            found.append(((begin, end), table.window(begin, end)))
            continue
        starts = range(begin, end, slices.period)
        parts = [of_slices[start] for start in starts if start in of_slices]
        if end in singles:
            parts.append(singles[end])
        pairs = together(parts, columns.merging.accumulators)
        if pairs is None:
            return None
        found.append(((begin, end), pairs))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The accumulators of slices, a row for each slice and a place in it for each key.

    So the keys are looked up once, and not for every window that has them.
    """

    starts: Sequence[int]  # for each row, where its slice begins; sorted
    keys: ColumnValues  # for each place
    there: NDArray[np.bool_]  # where a slice has a key
    numbers: Sequence[Numbers]  # for each leaf of an accumulator; where there is none, nothing
    like: ColumnValues  # accumulators, for their shape
    reduces: Sequence[Reduce]  # for each leaf

    def window(self, begin: int, end: int) -> ColumnValues:
        """Merge the slices that begin in a span, of which there is one."""
        rows = slice(bisect_left(self.starts, begin), bisect_left(self.starts, end))
        keys, there = self.keys, self.there[rows].any(axis=0)
        made = [
            OF_TWO[how].reduce(of_leaf[rows], axis=0)
            for how, of_leaf in zip(self.reduces, self.numbers, strict=True)
        ]
        if not there.all():
            places = np.flatnonzero(there)
            keys, made = keys.take(places), [of_leaf[places] for of_leaf in made]
        return keyed(keys, self.like.shape, made)


#: What changes nothing.
_NOTHING = {
    Reduce.SUM: 0, Reduce.LEAST: np.iinfo(np.int64).max, Reduce.GREATEST: np.iinfo(np.int64).min
}


def _table_of(
    of_slices: Mapping[int, ColumnValues], accumulators: Accumulators, count: int
) -> _Table | None:
    """Give slices as a table; None: most places would be empty, or a sum might not fit.

    Args:
        of_slices: by where it begins, the accumulators of each slice, one for each of its keys.
        accumulators: how they are merged.
        count: so many slices are merged at most.
    """
    if len(of_slices) < 2:
        return None
    starts = sorted(of_slices)
    whole = concatenate([of_slices[start] for start in starts])
    numbers, keys, _ = group_columns(whole.part(0), None)
    shape = len(starts), len(keys)
    if shape[0] * shape[1] > _CELLS_PER_ROW * len(whole):
        return None
    rows = np.repeat(np.arange(len(starts)), [len(of_slices[start]) for start in starts])
    there = np.zeros(shape, np.bool_)
    there[rows, numbers] = True
    made: list[Numbers] = []
    for how, leaf in zip(accumulators.reduces, whole.part(1).leaves, strict=True):
        far = max(-int(leaf.data.min()), int(leaf.data.max()))
        if how is Reduce.SUM and far * count >= 1 << 63:
            return None
        table = np.full(shape, _NOTHING[how], np.int64)
        table[rows, numbers] = leaf.data
        made.append(table)
    return _Table(
        starts=starts, keys=keys, there=there, numbers=made, like=whole.part(1).slice(0, 0),
        reduces=accumulators.reduces,
    )


def pairs_of_slices(
    found: dict[Span, list[ColumnValues]], slices: Slices, after: int, until: int = MAX_TIME
) -> dict[Span, list[ColumnValues]]:
    """Give the pairs of the windows that end after one moment, until another.

    Args:
        found: the pairs of slices and of single windows, those of one shape together.
        slices: how windows overlap.
        after: windows that ended until then are done.
        until: windows that end later are not due.
    """
    of_slices = {s[0]: parts for s, parts in found.items() if s[1] - s[0] == slices.period}
    singles = {s[1]: parts for s, parts in found.items() if s[1] - s[0] != slices.period}
    ends = ends_between(sorted(of_slices), slices, after, until)
    made: dict[Span, list[ColumnValues]] = {}
    for end in sorted({*ends, *(e for e in singles if after < e <= until)}):
        begin = end - slices.size
        starts = range(begin, end, slices.period)
        parts = [part for start in starts for part in of_slices.get(start, ())]
        by_shape: dict[Shape, list[ColumnValues]] = {}
        for part in [*parts, *singles.get(end, ())]:
            by_shape.setdefault(part.shape, []).append(part)
        made[begin, end] = [concatenate(each) for each in by_shape.values()]
    return made
