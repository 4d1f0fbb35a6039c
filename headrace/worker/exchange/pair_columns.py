"""Pairs that come to a grouping as columns: which may travel in bulk, and what they weigh.

Takes a batch of columns, gives its keys and values dealt out by key and windows, as the object path
would have gathered them: the same keys, the same values in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.shapes import OneInList, ScalarKind, ScalarShape, TupleShape
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_combining import (
    Pairs,
    grouped,
    lists,
    pairs_of,
    text_bytes,
    windows_of,
)
from headrace.worker.batched.weights import HEAVY_BYTES
from headrace.worker.beam_types import Key, Value
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues

_TYPES: dict[ScalarKind, type] = {
    ScalarKind.BOOL: bool,
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.TEXT: str,
    ScalarKind.BYTES: bytes,
}


class Bulk(NamedTuple):
    """What a grouping writer sends in bulk, by what its coders give back as it came."""

    key_types: frozenset[type]
    value_types: frozenset[type]
    value_tuple: Callable[[tuple[Any, ...]], bool] | None  # None: no tuple is such a value
    value_list: bool = False  # whether lists of plain values are

    def takes(self, pairs: Pairs) -> bool:
        """Whether all pairs of a batch may travel in bulk; all are of the types of the first."""
        if _TYPES.get(pairs.keys.kind) not in self.key_types:
            return False
        shape = pairs.values.shape
        match shape:
            case ScalarShape(kind=kind):
                found = {_TYPES.get(kind)}
                if pairs.values.leaves[0].missing is not None:
                    found.add(type(None))
                return found <= self.value_types
            case TupleShape(items=items) if self.value_tuple is not None:
                if not all(isinstance(i, ScalarShape) and i.kind in _TYPES for i in items):
                    return False
                if any(leaf.missing is not None for leaf in pairs.values.leaves):
                    return False
                return self.value_tuple(pairs.values.slice(0, 1).objects()[0])
            case OneInList(items=(ScalarShape(kind=kind),)):
                return self.value_list and kind in _TYPES
            case _:
                return False


def bulk_pairs(values: ColumnValues, meta: Meta, bulk: Bulk) -> tuple[Pairs, int] | None:
    """Give the pairs of a batch and about how many bytes of text they hold.

    None: they are no pairs that travel in bulk, or one of them is so large that it travels alone.
    """
    pairs = pairs_of(values, meta)
    if pairs is None or not bulk.takes(pairs):
        return None
    columns = [pairs.keys, *pairs.values.leaves]
    if sum(map(_longest, columns)) >= HEAVY_BYTES:
        return None
    return pairs, sum(map(text_bytes, columns))


def _longest(column: Column) -> int:
    """Give the bytes of a column's longest text; looks only where there may be a long one."""
    if text_bytes(column) < HEAVY_BYTES:
        return 0
    longest = pc.max(pc.binary_length(_as_bytes(column.data))).as_py()
    return int(longest or 0)


def _as_bytes(array: pa.Array) -> pa.Array:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return array.cast(pa.large_binary() if large else pa.binary())


def dealt(pairs: Pairs, by_window: bool) -> Iterator[tuple[Any, Iterator[tuple[Key, list[Value]]]]]:
    """Give, for each set of windows, keys with the lists of their values."""
    groups = grouped(pairs, by_window).listed()
    found = lists(pairs, groups)
    keys = groups.keys
    for windows, places in windows_of(pairs, groups):
        yield windows, ((keys[i], found[i]) for i in places)
