"""A batch as columns gives back the very objects it was made of, or is refused at the door."""

from __future__ import annotations

import dataclasses
import datetime
import math
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.shapes import (
    INT,
    NONE,
    OTHER,
    TEXT,
    ClassFound,
    RecordShape,
    ScalarKind,
    ScalarShape,
    Shape,
    TupleShape,
    joined,
    leaves_of,
)
from headrace.worker.columns.values import ColumnValues, concatenate, of_arrow, of_objects


class Point(NamedTuple):
    x: int
    name: Optional[str]  # noqa: UP045 (as a user of an older Python writes it)


@dataclasses.dataclass
class Box:
    corner: Point
    weight: float


class Level(IntEnum):
    LOW = 1


def shape_of(hint: Any) -> Shape:
    found = shape_of_hint(hint)
    assert found is not None
    return found


def made(objects: list[Any], shape: Shape) -> ColumnValues:
    found = of_objects(objects, shape)
    assert found is not None
    return ColumnValues(found.shape, found.leaves, len(found))  # without the objects


_SCALARS = {
    "int": (int, st.integers(-(2**63), 2**63 - 1)),
    "float": (float, st.floats()),
    "str": (str, st.text(st.characters(exclude_categories=["Cs"]))),
    "bytes": (bytes, st.binary()),
    "bool": (bool, st.booleans()),
    "time": (Timestamp, st.integers(-(2**53), 2**53).map(lambda m: Timestamp(micros=m))),
}


@pytest.mark.parametrize("name", sorted(_SCALARS))
@given(data=st.data())
def test_scalars_come_back_as_they_went_in(name: str, data: st.DataObject) -> None:
    hint, values = _SCALARS[name]
    objects = data.draw(st.lists(st.none() | values, max_size=8))
    found = made(objects, shape_of(hint | None)).objects()
    assert list(map(type, found)) == list(map(type, objects))
    assert repr(found) == repr(objects)


def test_tuples_records_and_rows_come_back_as_objects_of_their_class() -> None:
    boxes = [Box(Point(1, "a"), 0.5), Box(Point(2, None), -0.0)]
    assert made(boxes, shape_of(Box)).objects() == boxes
    nested = [((1, "a"), 2.0), ((3, "b"), math.inf)]
    assert made(nested, shape_of(tuple[tuple[int, str], float])).objects() == nested
    row = RecordShape("Row", ("a", "b"), (INT, TEXT), ClassFound.ROW)
    rows = [beam.Row(a=1, b="x")]
    assert made(rows, row).objects() == rows
    assert made([(1, None)], TupleShape((INT, NONE))).objects() == [(1, None)]


@pytest.mark.parametrize(
    ("objects", "hint"),
    [
        ([1, True], int),  # a bool is an int, and another type
        ([1, 2.0], int),
        ([np.int64(1)], int),
        ([Level.LOW], int),
        ([2**63], int),
        ([None], int),
        ([1], float),
        ([np.float64(1)], float),
        (["\ud800"], str),  # a lone surrogate is no UTF-8
        (["a", b"a"], str),
        ([(1, "a"), [1, "a"]], tuple[int, str]),
        ([(1, "a"), (1, "a", 2)], tuple[int, str]),
        ([Point(1, "a")], tuple[int, str]),  # a NamedTuple is a tuple with methods
        ([(1, "a")], Point),
        ([Point(1, 2)], Point),  # type: ignore[arg-type]
        ([Point("1", "a")], Point),  # type: ignore[arg-type]
    ],
)
def test_an_object_of_another_type_keeps_a_batch_from_being_columns(
    objects: list[Any], hint: Any
) -> None:
    assert of_objects(objects, shape_of(hint)) is None


def test_a_record_with_more_than_its_fields_has_no_columns() -> None:
    box = Box(Point(1, "a"), 0.5)
    box.more = 3  # type: ignore[attr-defined]
    assert of_objects([box], shape_of(Box)) is None


def test_parts_of_a_batch_have_the_rows_that_were_asked_for() -> None:
    points = [Point(n, None if n % 3 else f"p{n}") for n in range(10)]
    for batch in (made(points, shape_of(Point)), of_objects(points, shape_of(Point))):
        assert batch is not None
        assert batch.take(np.array([7, 0, 3])).objects() == [points[7], points[0], points[3]]
        mask = np.array([n in (1, 9) for n in range(10)])
        assert batch.filter(mask).objects() == [points[1], points[9]]
        assert batch.slice(2, 5).objects() == points[2:5]
        assert batch.part(1).objects() == [p.name for p in points]
        assert concatenate([batch.slice(0, 4), batch.slice(4, 10)]).objects() == points


def test_objects_are_put_in_their_places_if_they_fit() -> None:
    points = [Point(n, "a") for n in range(4)]
    batch = made(points, shape_of(Point))
    put = batch.put(np.array([1, 3]), [Point(-1, None), Point(2**63 - 1, "ß")])
    assert put is not None
    assert put.objects() == [points[0], Point(-1, None), points[2], Point(2**63 - 1, "ß")]
    assert batch.put(np.array([1]), [Point(2**63, "too large")]) is None
    assert batch.put(np.array([1]), [None]) is None


def test_arrow_columns_become_columns_of_the_shape() -> None:
    row = RecordShape(
        "Row",
        ("n", "t", "when", "s", "day"),
        (
            ScalarShape(ScalarKind.INT, nullable=True), TEXT,
            ScalarShape(ScalarKind.TIMESTAMP), shape_of(float), OTHER,
        ),  # fmt: skip
        ClassFound.ROW,
    )
    day = datetime.date(2026, 1, 2)
    arrays = [
        pa.array([1, None], pa.int32()), pa.array(["a", "ß"]),
        pa.array([0, 1_500_000], pa.timestamp("us", tz="UTC")),
        pa.array([0.5, 1.5], pa.float32()), pa.array([day, None]),
    ]  # fmt: skip
    batch = of_arrow(arrays, row, 2)
    assert batch is not None
    assert batch.objects() == [
        beam.Row(n=1, t="a", when=Timestamp(0), s=0.5, day=day),
        beam.Row(n=None, t="ß", when=Timestamp(1.5), s=1.5, day=None),
    ]
    assert batch.leaves[0].arrow().to_pylist() == [1, None]
    assert [type(v) for v in batch.part(3).objects()] == [float, float]


def test_arrow_columns_of_another_type_or_with_nulls_are_refused() -> None:
    assert of_arrow([pa.array([1, None])], INT, 2) is None
    assert of_arrow([pa.array([1], pa.uint64())], INT, 1) is None
    assert of_arrow([pa.array([Decimal(1)])], INT, 1) is None
    broken = pa.array([b"\xff"]).view(pa.string())
    assert of_arrow([broken], TEXT, 1) is None


def test_an_int_and_a_float_have_no_shape_in_common_but_none_joins_all() -> None:
    assert joined(INT, shape_of(float)) is None
    assert joined(INT, NONE) == ScalarShape(ScalarKind.INT, nullable=True)
    pair = TupleShape((INT, NONE))
    assert str(joined(pair, TupleShape((INT, TEXT)))) == "(int, str?)"
    assert [str(leaf) for leaf in leaves_of(shape_of(Box))] == ["int", "str?", "float"]
