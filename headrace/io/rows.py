"""Decides what a row of a DataFrame is in Beam: a named tuple with a Beam schema.

Takes a Spark schema, gives the class of its rows, registered with Beam's RowCoder. Refuses, by the
column's name, what cannot be carried without loss. Remembers the Spark schema of every class it
made, so that rows which are written as they were read keep their column types.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import keyword
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Optional

from apache_beam.typehints import row_type
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError
from headrace.io.row_classes import made_class

#: Every width of integer is Python's int and every float Python's float: annotations such as
#: `def f(x: int)` then fit, and the width of the column is kept beside the class (see `origin_of`).
_PLAIN: dict[type, Any] = {
    spark.BooleanType: bool,
    spark.ByteType: int,
    spark.ShortType: int,
    spark.IntegerType: int,
    spark.LongType: int,
    spark.FloatType: float,
    spark.DoubleType: float,
    spark.StringType: str,
    spark.VarcharType: str,
    spark.CharType: str,
    spark.BinaryType: bytes,
    spark.DateType: datetime.date,
    spark.TimestampType: Timestamp,
    spark.DecimalType: decimal.Decimal,
}

_REMEDIES: dict[type, str] = {
    spark.TimestampNTZType: "it has no time zone; cast it to timestamp, which is an instant",
    spark.NullType: "it has no type; cast it to one",
    spark.VariantType: "take the fields you need with variant_get, or cast it to string",
    spark.DayTimeIntervalType: "cast it to bigint or double and say the unit in its name",
    spark.YearMonthIntervalType: "cast it to int and say the unit in its name",
}

_origins: dict[str, spark.StructType] = {}  # schema id -> the columns its rows came from


def row_class(columns: spark.StructType, path: str = "") -> type:
    """Give the class of the rows of these columns; the same columns always give the same class.

    Raises:
        ColumnTypeError: a column has a type or a name that rows cannot have.
    """
    _check_names(columns, path)
    fields = [(f.name, _field_type(f.dataType, f.nullable, path + f.name)) for f in columns.fields]
    digest = hashlib.sha256(columns.json().encode()).hexdigest()[:24]
    schema_id = f"headrace-{digest}"
    made = made_class(fields, schema_id)
    _origins.setdefault(schema_id, columns)
    return made


def origin_of(element_type: Any) -> spark.StructType | None:
    """Give the columns that rows of this type were read from; None if they were not read."""
    if isinstance(element_type, row_type.RowTypeConstraint):
        return _origins.get(element_type.schema_id or "")
    return _origins.get(getattr(element_type, row_type._BEAM_SCHEMA_ID, ""))  # noqa: SLF001


def _check_names(columns: spark.StructType, path: str) -> None:
    seen: set[str] = set()
    for name in columns.names:
        problem = ""
        if name in seen:
            problem = "two columns have this name"
        elif not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            problem = "it cannot be the name of a field in Python"
        if problem:
            msg = f"column {path + name!r}: {problem}; rename it with df.withColumnRenamed or alias"
            raise ColumnTypeError(msg)
        seen.add(name)


def _field_type(kind: spark.DataType, nullable: bool, path: str) -> Any:
    inner = _value_type(kind, path)
    return Optional[inner] if nullable else inner  # noqa: UP045 (Beam knows this spelling)


def _value_type(kind: spark.DataType, path: str) -> Any:
    if isinstance(kind, spark.StructType):
        return row_class(kind, path + ".")
    if isinstance(kind, spark.ArrayType):
        item: Any = _field_type(kind.elementType, kind.containsNull, path + "[]")
        return Sequence[item]
    if isinstance(kind, spark.MapType):
        if isinstance(kind.keyType, spark.StructType | spark.ArrayType):
            _refuse(kind, path, "a key must be a plain value to stand in a Python dict")
        key: Any = _value_type(kind.keyType, path + "[key]")
        value: Any = _field_type(kind.valueType, kind.valueContainsNull, path + "[value]")
        return Mapping[key, value]
    found = _PLAIN.get(type(kind))
    if found is None:
        _refuse(kind, path, _REMEDIES.get(type(kind), "leave it out, or cast it to another type"))
    return found


def _refuse(kind: spark.DataType, path: str, remedy: str) -> NoReturn:
    msg = f"column {path!r} of type {kind.simpleString()} cannot be read: {remedy}"
    raise ColumnTypeError(msg)
