"""Decides which columns a collection becomes.

Takes the element type of a PCollection, gives a Spark schema, and the Arrow schema in which its
columns travel. Refuses, by the field's name, a type that says too little.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from apache_beam.portability import common_urns
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints import row_type, schemas, typehints
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError
from headrace.io.rows import origin_of

#: The column that elements which are no rows go to.
VALUE = "value"

#: What Spark itself takes for a decimal of which nothing is known; values with more digits than fit
#: are refused when they are written.
DECIMAL = spark.DecimalType(38, 18)

_ATOMIC: dict[int, spark.DataType] = {
    schema_pb2.BYTE: spark.ByteType(),
    schema_pb2.INT16: spark.ShortType(),
    schema_pb2.INT32: spark.IntegerType(),
    schema_pb2.INT64: spark.LongType(),
    schema_pb2.FLOAT: spark.FloatType(),
    schema_pb2.DOUBLE: spark.DoubleType(),
    schema_pb2.STRING: spark.StringType(),
    schema_pb2.BOOLEAN: spark.BooleanType(),
    schema_pb2.BYTES: spark.BinaryType(),
}

_LOGICAL: dict[str, spark.DataType] = {
    common_urns.micros_instant.urn: spark.TimestampType(),
    common_urns.millis_instant.urn: spark.TimestampType(),
    common_urns.date.urn: spark.DateType(),
    common_urns.decimal.urn: DECIMAL,
    "beam:logical_type:fixed_decimal:v1": DECIMAL,
    common_urns.fixed_bytes.urn: spark.BinaryType(),
    common_urns.var_bytes.urn: spark.BinaryType(),
    common_urns.fixed_char.urn: spark.StringType(),
    common_urns.var_char.urn: spark.StringType(),
}

_ARROW: dict[type, pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.CharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}


def columns_of(element_type: Any) -> spark.StructType:
    """Give the columns of a collection of this type.

    Raises:
        ColumnTypeError: the type, or one of its fields, does not say enough.
    """
    read_from = origin_of(element_type)
    if read_from is not None:
        return read_from
    if _is_record(element_type):
        return _record(element_type, "")
    if isinstance(element_type, typehints.TupleHint.TupleConstraint):
        msg = f"elements of type {element_type} have no column names; give a schema"
        raise ColumnTypeError(msg)
    if element_type in (Any, typehints.Any, object, dict) or isinstance(
        element_type, typehints.DictConstraint
    ):
        msg = (
            f"elements of type {element_type} do not tell their columns; give a schema, or a type "
            "with with_output_types(...)"
        )
        raise ColumnTypeError(msg)
    field = schemas.typing_to_runner_api(element_type)
    # A plain value may always be missing: lambdas say too little about None to promise otherwise.
    return spark.StructType([spark.StructField(VALUE, _type(field, VALUE), True)])


def _is_record(kind: Any) -> bool:
    return (
        isinstance(kind, row_type.RowTypeConstraint)
        or match_is_named_tuple(kind)
        or (isinstance(kind, type) and dataclasses.is_dataclass(kind))
    )


def _record(kind: Any, path: str) -> spark.StructType:
    """Give the columns of a class with fields, as its author wrote them."""
    made = kind.user_type if isinstance(kind, row_type.RowTypeConstraint) else kind
    # Beam takes annotations as they stand and sees only text where a module postpones them.
    hints = typing.get_type_hints(made)
    names = getattr(made, "_fields", None) or [f.name for f in dataclasses.fields(made)]
    fields = [(name, *_hinted(hints[name], path + name)) for name in names]
    return spark.StructType([spark.StructField(*field) for field in fields])


def _hinted(hint: Any, path: str) -> tuple[spark.DataType, bool]:
    """Give the type of a column, and whether a value may be missing."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in args and len(args) == 2:
        (inner,) = (arg for arg in args if arg is not type(None))
        return _hinted(inner, path)[0], True
    if _is_record(hint):
        return _record(hint, path + "."), False
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
        key, _ = _hinted(args[0], path + "[key]")
        return spark.MapType(key, *_hinted(args[1], path + "[value]")), False
    if isinstance(origin, type) and issubclass(origin, Iterable) and len(args) == 1:
        return spark.ArrayType(*_hinted(args[0], path + "[]")), False
    return _type(schemas.typing_to_runner_api(hint), path), False


def _struct(schema: Any, path: str) -> spark.StructType:
    return spark.StructType(
        [
            spark.StructField(f.name, _type(f.type, path + f.name), f.type.nullable)
            for f in schema.fields
        ]
    )


def _type(field: Any, path: str) -> spark.DataType:
    match field.WhichOneof("type_info"):
        case "atomic_type" if field.atomic_type in _ATOMIC:
            return _ATOMIC[field.atomic_type]
        case "logical_type" if field.logical_type.urn in _LOGICAL:
            return _LOGICAL[field.logical_type.urn]
        case "row_type":
            return _struct(field.row_type.schema, path + ".")
        case "array_type" | "iterable_type" as kind:
            item = getattr(field, kind).element_type
            return spark.ArrayType(_type(item, path + "[]"), item.nullable)
        case "map_type":
            key, value = field.map_type.key_type, field.map_type.value_type
            return spark.MapType(
                _type(key, path + "[key]"), _type(value, path + "[value]"), value.nullable
            )
        case _:
            msg = f"column {path!r}: its Python type has no counterpart in Spark; give a schema"
            raise ColumnTypeError(msg)


def arrow_schema(columns: spark.StructType) -> pa.Schema:
    """Give the Arrow schema in which these columns travel.

    Raises:
        ColumnTypeError: a column's type cannot be written.
    """
    return pa.schema(
        [pa.field(f.name, _arrow(f.dataType, f.name), f.nullable) for f in columns.fields]
    )


def _arrow(kind: spark.DataType, path: str) -> pa.DataType:
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        item = pa.field("element", _arrow(kind.elementType, path + "[]"), kind.containsNull)
        return pa.list_(item)
    if isinstance(kind, spark.MapType):
        value = pa.field("value", _arrow(kind.valueType, path + "[value]"), kind.valueContainsNull)
        return pa.map_(_arrow(kind.keyType, path + "[key]"), value)
    if isinstance(kind, spark.StructType):
        return pa.struct(
            [
                pa.field(f.name, _arrow(f.dataType, f"{path}.{f.name}"), f.nullable)
                for f in kind.fields
            ]
        )
    found = _ARROW.get(type(kind))
    if found is None:
        msg = f"column {path!r} of type {kind.simpleString()} cannot be written"
        raise ColumnTypeError(msg)
    return found
