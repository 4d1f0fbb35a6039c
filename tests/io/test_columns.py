from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.typehints import row_type, typehints
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as t

from headrace.errors import ColumnTypeError
from headrace.io.columns import arrow_schema, columns_of
from headrace.io.rows import row_class


class Place(NamedTuple):
    city: str
    code: np.int32


class Trip(NamedTuple):
    start: Place
    minutes: int | None
    stops: Sequence[str | None]
    fares: Mapping[str, float]
    on: datetime.date
    at: Timestamp
    price: decimal.Decimal


class Odd(NamedTuple):
    fine: int
    odd: Any


@dataclasses.dataclass(frozen=True)
class Reading:
    gauge: str
    level: float


def test_the_fields_of_a_named_tuple_become_columns() -> None:
    place = t.StructType(
        [
            t.StructField("city", t.StringType(), False),
            t.StructField("code", t.IntegerType(), False),
        ]
    )
    assert columns_of(Trip) == t.StructType(
        [
            t.StructField("start", place, False),
            t.StructField("minutes", t.LongType(), True),
            t.StructField("stops", t.ArrayType(t.StringType(), True), False),
            t.StructField("fares", t.MapType(t.StringType(), t.DoubleType(), False), False),
            t.StructField("on", t.DateType(), False),
            t.StructField("at", t.TimestampType(), False),
            t.StructField("price", t.DecimalType(38, 18), False),
        ]
    )


def test_a_beam_row_and_a_dataclass_say_their_columns_too() -> None:
    wanted = t.StructType(
        [
            t.StructField("gauge", t.StringType(), False),
            t.StructField("level", t.DoubleType(), False),
        ]
    )
    row = row_type.RowTypeConstraint.from_fields([("gauge", str), ("level", float)])
    assert columns_of(row) == wanted
    assert columns_of(Reading) == wanted


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (int, t.LongType()),
        (str, t.StringType()),
        (bytes, t.BinaryType()),
        (Timestamp, t.TimestampType()),
        (datetime.date, t.DateType()),
    ],
)
def test_plain_values_go_to_one_column_named_value(kind: Any, column: t.DataType) -> None:
    assert columns_of(kind) == t.StructType([t.StructField("value", column, True)])


def test_rows_that_were_read_keep_the_widths_of_their_columns() -> None:
    schema = t.StructType([t.StructField("a", t.ByteType(), True)])
    assert columns_of(row_class(schema)) == schema


@pytest.mark.parametrize(
    "kind", [Any, typehints.Any, dict, typehints.Dict[str, int], typehints.Tuple[str, int]]
)
def test_a_type_without_columns_is_refused_with_the_remedy(kind: Any) -> None:
    with pytest.raises(ColumnTypeError, match="give a schema"):
        columns_of(kind)


def test_a_field_of_unknown_type_is_refused_by_its_name() -> None:
    with pytest.raises(ColumnTypeError, match="column 'odd'"):
        columns_of(Odd)


def test_the_arrow_schema_keeps_names_types_and_who_may_be_missing() -> None:
    inner = t.StructType([t.StructField("x", t.ByteType(), False)])
    schema = t.StructType(
        [
            t.StructField("a", t.DecimalType(9, 3), True),
            t.StructField("b", t.ArrayType(inner, False), False),
            t.StructField("c", t.MapType(t.StringType(), t.TimestampType(), True), True),
        ]
    )
    struct = pa.struct([pa.field("x", pa.int8(), False)])
    assert arrow_schema(schema) == pa.schema(
        [
            pa.field("a", pa.decimal128(9, 3), True),
            pa.field("b", pa.list_(pa.field("element", struct, False)), False),
            pa.field("c", pa.map_(pa.string(), pa.timestamp("us", tz="UTC")), True),
        ]
    )


def test_a_column_type_that_cannot_be_written_is_refused_by_its_name() -> None:
    schema = t.StructType([t.StructField("v", t.VariantType(), True)])
    with pytest.raises(ColumnTypeError, match="column 'v' of type variant cannot be written"):
        arrow_schema(schema)
