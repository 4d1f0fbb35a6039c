from __future__ import annotations

import datetime
import decimal
import pickle
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as t

from headrace.errors import ColumnTypeError
from headrace.io.rows import origin_of, row_class


def columns(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind, False) for name, kind in kinds.items()])


EVERYTHING = t.StructType(
    [
        t.StructField("flag", t.BooleanType(), False),
        t.StructField("small", t.ByteType(), False),
        t.StructField("large", t.LongType(), True),
        t.StructField("single", t.FloatType(), False),
        t.StructField("text", t.StringType(), True),
        t.StructField("raw", t.BinaryType(), False),
        t.StructField("day", t.DateType(), False),
        t.StructField("instant", t.TimestampType(), False),
        t.StructField("price", t.DecimalType(10, 2), False),
        t.StructField("tags", t.ArrayType(t.StringType(), True), False),
        t.StructField("counts", t.MapType(t.StringType(), t.IntegerType(), False), False),
        t.StructField("place", columns(city=t.StringType(), code=t.IntegerType()), False),
    ]
)


def example(made: Any) -> Any:
    place = made.__annotations__["place"]
    return made(
        flag=True,
        small=-128,
        large=None,
        single=0.5,
        text="Mühle",
        raw=b"\x00\xff",
        day=datetime.date(1969, 12, 31),
        instant=Timestamp(micros=-1),
        price=decimal.Decimal("12.30"),
        tags=["a", None],
        counts={"x": 1},
        place=place(city="Ulm", code=89073),
    )


def test_a_row_survives_the_row_coder_with_every_type_of_column() -> None:
    made = row_class(EVERYTHING)
    row = example(made)
    coder = coders.registry.get_coder(made)
    assert isinstance(coder, coders.RowCoder)
    assert coder.decode(coder.encode(row)) == row


def test_a_row_can_be_pickled_though_its_class_stands_in_no_module() -> None:
    row = example(row_class(EVERYTHING))
    again = pickle.loads(pickle.dumps(row))
    assert again == row
    assert again.place.city == "Ulm"


def test_integers_of_every_width_are_pythons_int_so_that_annotations_fit() -> None:
    made = row_class(columns(a=t.ByteType(), b=t.ShortType(), c=t.IntegerType(), d=t.LongType()))
    assert set(made.__annotations__.values()) == {int}


def test_the_same_columns_give_the_same_class_and_other_widths_another() -> None:
    one = row_class(columns(a=t.IntegerType()))
    assert row_class(columns(a=t.IntegerType())) is one
    assert row_class(columns(a=t.LongType())) is not one


def test_the_columns_a_class_was_made_from_are_remembered_with_their_widths() -> None:
    schema = columns(a=t.ShortType())
    assert origin_of(row_class(schema)) == schema
    assert origin_of(int) is None


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (t.TimestampNTZType(), "timestamp_ntz.*cast it to timestamp"),
        (t.NullType(), "void.*cast it"),
        (t.VariantType(), "variant.*variant_get"),
        (t.DayTimeIntervalType(), "interval day to second.*bigint"),
        (t.MapType(columns(a=t.LongType()), t.LongType()), "map.*a key must be a plain value"),
    ],
)
def test_a_type_that_cannot_be_carried_is_refused_by_the_name_of_its_column(
    kind: t.DataType, told: str
) -> None:
    with pytest.raises(ColumnTypeError, match=rf"(?s)column 'odd' of type {told}"):
        row_class(columns(fine=t.LongType(), odd=kind))


def test_a_refused_type_deep_inside_is_named_by_its_path() -> None:
    inner = columns(when=t.ArrayType(t.TimestampNTZType()))
    with pytest.raises(ColumnTypeError, match=r"column 'trip\.when\[\]'"):
        row_class(columns(trip=inner))


@pytest.mark.parametrize("name", ["unit price", "class", "_hidden", "1st", ""])
def test_a_name_that_cannot_be_a_field_is_refused_with_the_remedy(name: str) -> None:
    schema = t.StructType([t.StructField(name, t.LongType())])
    with pytest.raises(ColumnTypeError, match="rename it"):
        row_class(schema)


def test_two_columns_of_one_name_are_refused() -> None:
    schema = t.StructType([t.StructField("a", t.LongType()), t.StructField("a", t.LongType())])
    with pytest.raises(ColumnTypeError, match="column 'a': two columns have this name"):
        row_class(schema)
