"""Pairs as columns, dealt out by key and windows.

Takes a batch of columns, gives its keys and values, numbers them by window and key, and gives the
values of each in their order. What known combines make of them is in `known_combines`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.plan.shapes import (
    NONE,
    RecordShape,
    ScalarKind,
    ScalarShape,
    Shape,
    TupleShape,
    certain,
)
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import Micros, Started
from headrace.worker.batched.column_groups import (
    GroupColumns,
    Groups,
    group_columns,
    in_groups,
)
from headrace.worker.beam_types import Value, Windows
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues, concatenate

#: Keys that a dict and their encoding tell apart in the same way, see `plain_values`.
_KEYS = frozenset({ScalarKind.INT, ScalarKind.TEXT, ScalarKind.BYTES})


class Pairs(NamedTuple):
    """Keys and values as columns, with the windows they stand in."""

    keys: ColumnValues  # their shape says of no leaf that it may be None
    values: ColumnValues
    windows: Any  # Started, or the windows that all of them share

    def goes_with(self, other: Pairs) -> bool:
        """Whether both can be one batch."""
        if self.values.shape != other.values.shape or self.keys.shape != other.keys.shape:
            return False
        if type(self.windows) is Started and type(other.windows) is Started:
            return self.windows.known is other.windows.known
        return self.windows is other.windows


def pairs_of(values: ColumnValues, meta: Meta) -> Pairs | None:
    """Take a batch of pairs apart; None if its keys cannot be told apart as columns."""
    shape = values.shape
    if type(shape) is not TupleShape or len(shape.items) != 2:
        return None
    keys = values.part(0)
    if not _tells_apart(keys.shape):
        return None
    if keys.shape != NONE:
        if any(leaf.missing is not None for leaf in keys.leaves):
            return None
        keys = ColumnValues(certain(keys.shape), keys.leaves, len(keys))
    return Pairs(keys, values.part(1), meta.windows)


def _tells_apart(shape: Shape) -> bool:
    """Whether columns tell keys apart as a dict does: scalars, tuples and records of such; None."""
    if isinstance(shape, ScalarShape):
        # None is the only key of a combine of a whole collection.
        return shape == NONE or shape.kind in _KEYS
    if not isinstance(shape, (TupleShape, RecordShape)) or not shape.items:
        return False
    return all(isinstance(i, ScalarShape) and i.kind in _KEYS for i in shape.items)


def owned(pairs: Pairs) -> Pairs:
    """Give the same pairs without the batch they came in: one column would keep all of it."""
    windows = pairs.windows
    if type(windows) is Started:
        windows = Started(windows.starts.copy(), windows.known)
    return Pairs(_all_copied(pairs.keys), _all_copied(pairs.values), windows)


def _all_copied(values: ColumnValues) -> ColumnValues:
    return ColumnValues(values.shape, [_copied(leaf) for leaf in values.leaves], len(values))


def _copied(column: Column) -> Column:
    data = column.data
    copy = data.copy() if isinstance(data, np.ndarray) else pa.concat_arrays([data, data[:0]])
    return Column(column.kind, copy, column.missing, column.read)


def text_bytes(column: Column) -> int:
    """Give the bytes of a column whose values differ in size; numbers count as nothing."""
    return 0 if isinstance(column.data, np.ndarray) else int(column.data.nbytes)


def joined(parts: list[Pairs]) -> Pairs:
    """Make one batch of several that go with each other."""
    if len(parts) == 1:
        return parts[0]
    windows = parts[0].windows
    if type(windows) is Started:
        windows = Started(
            np.concatenate([part.windows.starts for part in parts]), windows.known
        )
    keys = concatenate([part.keys for part in parts])
    return Pairs(keys, concatenate([part.values for part in parts]), windows)


def grouped(pairs: Pairs, by_window: bool) -> GroupColumns:
    """Number the pairs by key, and by window if asked to."""
    starts: Micros | None = None
    if by_window and type(pairs.windows) is Started:
        starts = pairs.windows.starts
    return group_columns(pairs.keys, starts)


def lists(pairs: Pairs, groups: Groups | GroupColumns) -> list[list[Value]]:
    """Give the values of each group, in their order."""
    places, ends = in_groups(groups.numbers, len(groups))
    found = pairs.values.take(places).objects()
    return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def windows_of(pairs: Pairs, groups: Groups) -> list[tuple[Windows, list[int]]]:
    """Give each set of windows, with the numbers of its groups."""
    if groups.starts is None:
        return [(pairs.windows, list(range(len(groups))))]
    found: dict[int, list[int]] = {}
    for number, start in enumerate(groups.starts):
        found.setdefault(start, []).append(number)
    return [(pairs.windows.known[start], numbers) for start, numbers in found.items()]
