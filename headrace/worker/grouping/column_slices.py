"""Makes windows out of slices whose accumulators are columns.

Takes the merged accumulators of slices and of single windows, gives those of one window after the
other. Knows no store and no wire; `slices` does the same for objects.
"""

from __future__ import annotations

from headrace.plan.clocks import MAX_TIME
from headrace.plan.shapes import Shape
from headrace.plan.slices import Slices
from headrace.worker.columns.values import ColumnValues, concatenate
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.grouping.column_tables import ColumnTables, together
from headrace.worker.grouping.slices import ends_between

#: Slices of one window that are merged anew for each: of more, objects merge fewer.
MOST_SLICES = 8


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
    found: list[tuple[Span, ColumnValues]] = []
    for end in sorted({*ends, *(e for e in singles if after < e <= until)}):
        begin = end - slices.size
        starts = range(begin, end, slices.period)
        parts = [of_slices[start] for start in starts if start in of_slices]
        if end in singles:
            parts.append(singles[end])
        pairs = together(parts, columns.merging.accumulators)
        if pairs is None:
            return None
        found.append(((begin, end), pairs))
    return found


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
