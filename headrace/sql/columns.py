"""Turns rows of a collection into Arrow columns for a query, and a query's columns into rows.

A field is known by its Python type, as Beam's schemas have it. Values of types that SQL has not,
such as a user's own class, are carried: the column says where they stand, and they come out as they
went in. Knows Beam's rows and Arrow; nothing of queries and of DuckDB.
"""

from __future__ import annotations

import datetime
import decimal
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Optional

import numpy as np
import pyarrow as pa
from apache_beam.typehints import row_type, schemas
from apache_beam.typehints.native_type_compatibility import convert_to_python_type
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import UnsupportedTransformError
from headrace.io.row_classes import made_class

_PLAIN: dict[Any, pa.DataType] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
    np.int8: pa.int8(), np.int16: pa.int16(), np.int32: pa.int32(), np.int64: pa.int64(),
    np.float32: pa.float32(), np.float64: pa.float64(), datetime.date: pa.date32(),
    Timestamp: pa.timestamp("us"), decimal.Decimal: pa.decimal128(38, 9),
}  # fmt: skip
_CARRIED = "headrace_carried_"

Encode = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of rows as a column."""

    name: str
    python: Any  # its type
    arrow: pa.DataType
    encode: Encode | None  # what Arrow is given instead of a value; None: the value itself
    carried: bool = False


def fields_of(element_type: Any, first: int = 0) -> tuple[Field, ...]:
    """Give the fields of a collection's rows.

    Args:
        element_type: of the collection.
        first: the number from which carried fields count, so that those of two tables differ.

    Raises:
        UnsupportedTransformError: the elements have no fields that are known beforehand.
    """
    try:
        pairs = schemas.named_fields_from_element_type(element_type)
    except (TypeError, ValueError, AttributeError) as e:
        msg = (
            f"elements of type {element_type} have no schema. Make them beam.Row with fields that "
            "Beam can tell the types of, or name the class by .with_output_types(MyNamedTuple)"
        )
        raise UnsupportedTransformError(msg) from e
    written = _hints(element_type)
    made = []
    for number, (name, hint) in enumerate(pairs, start=first):
        kind = written.get(name) or convert_to_python_type(hint)
        found = _column_of(kind)
        if found is None:
            arrow = pa.struct([(f"{_CARRIED}{number}", pa.int64())])
            made.append(Field(name, kind, arrow, None, carried=True))
        else:
            made.append(Field(name, kind, *found))
    return tuple(made)


def _hints(element_type: Any) -> dict[str, Any]:
    """Give the types that a class of the user's names, also where they are kept as text."""
    if not hasattr(element_type, "_fields") or isinstance(element_type, row_type.RowTypeConstraint):
        return {}
    try:
        return typing.get_type_hints(element_type)
    except (NameError, TypeError):  # names that only a type checker can find
        return {}


def _column_of(kind: Any) -> tuple[pa.DataType, Encode | None] | None:
    """Give column type and encoding; None for what SQL has no type for."""
    sides = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, UnionType) else ()
    if type(None) in sides:
        if len(sides) != 2:
            return None
        found = _column_of(next(side for side in sides if side is not type(None)))
        if found is None or found[1] is None:
            return found
        encode = found[1]
        return found[0], lambda value: None if value is None else encode(value)
    if kind in _PLAIN:
        return _PLAIN[kind], (lambda value: value.micros) if kind is Timestamp else None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, Sequence) and len(args) == 1:
        item = _column_of(args[0])
        return None if item is None else (pa.list_(item[0]), _each(item[1]))
    if origin in (dict, Mapping) and len(args) == 2:
        return _map_of(args)
    return _struct_of(kind)


def _each(encode: Encode | None) -> Encode | None:
    return None if encode is None else lambda values: [encode(value) for value in values]


def _map_of(args: tuple[Any, ...]) -> tuple[pa.DataType, Encode] | None:
    key, value = map(_column_of, args)
    if key is None or value is None:
        return None
    first, second = key[1] or _same, value[1] or _same
    return pa.map_(key[0], value[0]), lambda items: [
        (first(name), second(item)) for name, item in items.items()
    ]


def _struct_of(kind: Any) -> tuple[pa.DataType, Encode] | None:
    if not (isinstance(kind, row_type.RowTypeConstraint) or hasattr(kind, "_fields")):
        return None
    inner = fields_of(kind)
    if any(field.carried for field in inner):
        return None
    read = [(f.name, f.encode or _same) for f in inner]
    return (
        pa.struct([(f.name, f.arrow) for f in inner]),
        lambda row: {name: encode(getattr(row, name)) for name, encode in read},
    )


def _same(value: Any) -> Any:
    return value


def sql_type(arrow: pa.DataType) -> str:
    """Name a column's type in DuckDB's words."""
    if pa.types.is_struct(arrow):
        return "STRUCT(" + ", ".join(f"{f.name} {sql_type(f.type)}" for f in arrow) + ")"
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_map(arrow):
        return f"MAP({sql_type(arrow.key_type)}, {sql_type(arrow.item_type)})"
    return _SQL[arrow]


_SQL = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER",
    pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR",
    pa.binary(): "BLOB", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP",
    pa.decimal128(38, 9): "DECIMAL(38, 9)",
}  # fmt: skip


def table_of(fields: Sequence[Field], rows: Sequence[Any], carried: list[Any]) -> pa.Table:
    """Lay rows out as columns.

    Args:
        fields: of the rows.
        rows: all of one table.
        carried: takes the values that are handed on; columns say where in it they stand.
    """
    return table_of_values(fields, [values_of(fields, row) for row in rows], carried)


def values_of(fields: Sequence[Field], row: Any) -> tuple[Any, ...]:
    """Give a row's values without its class, which may be one of the user's script alone."""
    return tuple(getattr(row, field.name) for field in fields)


def table_of_values(
    fields: Sequence[Field], rows: Sequence[tuple[Any, ...]], carried: list[Any]
) -> pa.Table:
    """Lay rows out as columns, given as tuples of their fields' values."""
    arrays = []
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    for field, column in zip(fields, columns, strict=True):
        values: Iterable[Any] = column
        if field.carried:
            at = range(len(carried), len(carried) + len(rows))
            carried.extend(values)
            places = pa.array(at, pa.int64())
            arrays.append(pa.StructArray.from_arrays([places], fields=list(field.arrow)))
            continue
        encode = field.encode
        if encode is not None:
            values = [None if value is None else encode(value) for value in values]
        arrays.append(pa.array(list(values), field.arrow))
    return pa.table(arrays, names=[field.name for field in fields])


def python_types(schema: pa.Schema, carried: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Give the fields of a query's rows.

    Args:
        schema: of its columns.
        carried: the types of columns that are handed on, by the name inside of their struct.
    """
    return [(field.name, _python_of(field, carried)) for field in schema]


def _python_of(field: pa.Field, carried: Mapping[str, Any]) -> Any:
    if _is_carried(field.type):
        return carried[field.type.field(0).name]
    return Optional[_value_type(field.type, field.name)]  # noqa: UP045 (Beam knows this spelling)


def _is_carried(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or kind.num_fields != 1:
        return False
    return str(kind.field(0).name).startswith(_CARRIED)


def _value_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return decimal.Decimal
    if pa.types.is_timestamp(kind):
        return Timestamp
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        item: Any = Optional[_value_type(kind.value_type, name)]  # noqa: UP045
        return Sequence[item]
    if pa.types.is_map(kind):
        key: Any = _value_type(kind.key_type, name)
        value: Any = Optional[_value_type(kind.item_type, name)]  # noqa: UP045
        return Mapping[key, value]
    if pa.types.is_struct(kind):
        return made_class(python_types(pa.schema(list(kind)), {}))
    for python, arrow in _PLAIN.items():
        if arrow == kind:
            return python
    msg = (
        f"the result {name} has the type {kind}, which rows cannot have; CAST it to VARCHAR, or to "
        "another type"
    )
    raise UnsupportedTransformError(msg)


def rows_of(table: pa.Table, made: Any, carried: Sequence[Any]) -> list[Any]:
    """Make rows of a query's columns.

    Args:
        table: what came out.
        made: the class of its rows.
        carried: the values that were handed on.
    """
    columns = [
        _decoded(column, carried) for column in (table.column(i) for i in range(len(made._fields)))
    ]
    return [made(*values) for values in zip(*columns, strict=True)]


def _decoded(column: Any, carried: Sequence[Any]) -> list[Any]:
    kind = column.type
    if _is_carried(kind):
        return [carried[value] for value in column.combine_chunks().field(0).to_pylist()]
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return [None if at is None else Timestamp(micros=at) for at in micros]
    if pa.types.is_nested(kind):
        decode = _decoder(kind)
        return [None if value is None else decode(value) for value in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _decoder(kind: pa.DataType) -> Encode:
    """Give what makes a value of rows of what Arrow gives for one inside another."""
    if pa.types.is_map(kind):
        key, item = _decoder(kind.key_type), _decoder(kind.item_type)
        return lambda pairs: {key(a): None if b is None else item(b) for a, b in pairs}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _decoder(kind.value_type)
        return lambda values: [None if value is None else inner(value) for value in values]
    if pa.types.is_struct(kind):
        made = _value_type(kind, "")
        parts = [(f.name, _decoder(f.type)) for f in kind]
        return lambda row: made(*(
            None if row[name] is None else decode(row[name]) for name, decode in parts
        ))
    if pa.types.is_timestamp(kind):
        return _instant
    return _same


def _instant(value: datetime.datetime) -> Timestamp:
    return Timestamp.from_utc_datetime(value.replace(tzinfo=datetime.timezone.utc))
