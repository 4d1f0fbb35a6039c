"""Pairs that come to a grouping as columns: which may travel in bulk, and what they weigh.

Takes a batch of columns, gives its keys and values dealt out by key and windows, as the object path
would have gathered them: the same keys, the same values in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam import coders

from headrace.plan.shapes import FixedList, ScalarKind, ScalarShape, Shape, TupleShape
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_combining import (
    Pairs,
    grouped,
    lists,
    pairs_of,
    text_bytes,
    windows_of,
)
from headrace.worker.batched.plain_values import PLAIN, scalar_types, unwrap
from headrace.worker.batched.weights import HEAVY_BYTES
from headrace.worker.beam_types import Coder, Key, Value, Windows
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.key_columns import KeyColumns

_TYPES: dict[ScalarKind, type] = {
    ScalarKind.BOOL: bool,
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.TEXT: str,
    ScalarKind.BYTES: bytes,
}


class Bulk(NamedTuple):
    """What a grouping writer sends in bulk, by what its coders give back as it came."""

    keys: KeyColumns
    values: Coder
    value_types: frozenset[type]
    value_list: bool = False  # whether lists of plain values are

    def takes_values(self, values: ColumnValues) -> bool:
        """Whether all values of a batch may travel in bulk; all are of the types of the first."""
        shape = values.shape
        match shape:
            case ScalarShape(kind=kind):
                found = {_TYPES.get(kind)}
                if values.leaves[0].missing is not None:
                    found.add(type(None))
                return found <= self.value_types
            case TupleShape():
                if any(leaf.missing is not None for leaf in values.leaves):
                    return False
                return gives_back(self.values, shape)
            case FixedList():
                return self.value_list and _is_plain(shape)
            case _:
                return False


def gives_back(coder: Coder, shape: Shape) -> bool:
    """Whether a coder gives values of a shape back as they came: scalars, and tuples of such.

    >>> from apache_beam.coders import StrUtf8Coder, TupleCoder, VarIntCoder
    >>> from headrace.plan.shapes import INT, TEXT
    >>> coder = TupleCoder([StrUtf8Coder(), TupleCoder([VarIntCoder(), VarIntCoder()])])
    >>> [gives_back(coder, TupleShape((TEXT, TupleShape((INT, one))))) for one in (INT, TEXT)]
    [True, False]
    """
    types = scalar_types(coder)
    if isinstance(shape, ScalarShape):
        return _TYPES.get(shape.kind) in types
    if types == PLAIN:  # of any type
        return _is_plain(shape)
    inner = unwrap(coder)
    if type(shape) is not TupleShape or type(inner) is not coders.TupleCoder:
        return False
    parts = inner.coders()
    return len(parts) == len(shape.items) and all(map(gives_back, parts, shape.items))


def _is_plain(shape: Shape) -> bool:
    """Whether a coder of any type gives values of a shape back as they came."""
    match shape:
        case ScalarShape(kind=kind):
            return kind in _TYPES
        case TupleShape(items=items) | FixedList(items=items):
            return all(map(_is_plain, items))
        case _:
            return False


def bulk_pairs(values: ColumnValues, meta: Meta, bulk: Bulk) -> tuple[Pairs, int] | None:
    """Give the pairs of a batch and about how many bytes of text they hold.

    None: they are no pairs that travel in bulk, or one of them is so large that it travels alone.
    """
    pairs = pairs_of(values, meta)
    keys = None if pairs is None else bulk.keys.given_back(pairs.keys)
    if pairs is None or keys is None or not bulk.takes_values(pairs.values):
        return None
    pairs = pairs._replace(keys=keys)
    columns = [*keys.leaves, *pairs.values.leaves]
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


def dealt(
    pairs: Pairs, by_window: bool
) -> Iterator[tuple[Windows, Iterator[tuple[Key, list[Value]]]]]:
    """Give, for each set of windows, keys with the lists of their values."""
    groups = grouped(pairs, by_window).listed()
    found = lists(pairs, groups)
    keys = groups.keys
    for windows, places in windows_of(pairs, groups):
        yield windows, ((keys[i], found[i]) for i in places)
