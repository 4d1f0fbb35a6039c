"""Columns to columns: which of a batch's columns become the columns of a sink, as they are.

Takes a batch of columns and the sink's schema, gives Arrow arrays, or None where only objects can
tell: they are then converted one by one, or refused with the message that names the value.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.plan.shapes import (
    ClassFound,
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    ScalarShape,
    TupleShape,
)
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues


def arrays_of(values: ColumnValues, schema: pa.Schema) -> list[pa.Array] | None:
    """Give the columns of a sink; None if objects have to be looked at."""
    leaves = _in_order(values, schema.names)
    if leaves is None:
        return None
    found: list[pa.Array] = []
    for leaf, field in zip(leaves, schema, strict=True):
        array = _array(leaf, field.type)
        if array is None or not _nulls_fit(field, array):
            return None
        found.append(array)
    return found


def _in_order(values: ColumnValues, names: list[str]) -> list[Column] | None:
    """Give the leaves in the order of the sink's columns; None if they are not these."""
    shape = values.shape
    if isinstance(shape, ScalarShape):
        return list(values.leaves) if len(names) == 1 else None
    if len(shape.items) != len(names):
        return None
    if not all(isinstance(item, ScalarShape) for item in shape.items):
        return None
    match shape:
        case TupleShape():
            return list(values.leaves)
        case RecordShape(names=own, found=found):
            if set(own) != set(names) or (found is ClassFound.ROW and len(set(own)) != len(own)):
                return None
            by_name = dict(zip(own, values.leaves, strict=True))
            return [by_name[name] for name in names]
        case DictShape(names=own):
            by_name = dict(zip(own, values.leaves, strict=True))
            return [by_name[name] for name in names] if set(own) == set(names) else None
        case FixedList():
            return None


def _array(leaf: Column, kind: pa.DataType) -> pa.Array | None:
    """Give a column in the type of the sink; None if objects might give something else."""
    match leaf.kind:
        case ScalarKind.INT if pa.types.is_integer(kind):
            return _cast(leaf, kind)
        case ScalarKind.FLOAT if pa.types.is_float64(kind):
            return leaf.arrow()
        case ScalarKind.BOOL if pa.types.is_boolean(kind):
            return leaf.arrow()
        case ScalarKind.TEXT if pa.types.is_string(kind):
            return _cast(leaf, kind)
        case ScalarKind.BYTES if pa.types.is_binary(kind):
            return _cast(leaf, kind)
        case ScalarKind.TIMESTAMP if pa.types.is_timestamp(kind) and kind.tz and kind.unit == "us":
            return _cast(leaf, kind)
        case ScalarKind.NONE:
            return pa.nulls(len(leaf), kind)
        case ScalarKind.OTHER if isinstance(leaf.data, pa.Array) and leaf.data.type == kind:
            return None if pa.types.is_nested(kind) else leaf.data
        case _:
            return None


def _cast(leaf: Column, kind: pa.DataType) -> pa.Array | None:
    array = leaf.arrow()
    if array.type == kind:
        return array
    try:
        return array.cast(kind)  # refuses a number that does not fit
    except pa.ArrowInvalid:
        return None


def _nulls_fit(field: pa.Field, array: pa.Array) -> bool:
    """Spark believes a schema that says "not null" and would read rubbish."""
    return bool(field.nullable or not array.null_count)
