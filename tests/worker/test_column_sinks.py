"""Columns that reach a sink as columns are the rows, types and refusals that objects give."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.errors import ColumnsDifferError, ColumnTypeError
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.plan.shapes import INT, TEXT, TupleShape
from headrace.testing import LocalRunner, LocalSession
from headrace.worker.batched.batches import GLOBAL
from headrace.worker.batched.column_batches import Started, TimeColumns
from headrace.worker.columns.values import ColumnValues, of_objects
from headrace.worker.ends import column_writer
from headrace.worker.ends.column_fields import arrays_of
from headrace.worker.ends.column_writer import ColumnWriter, decode
from headrace.worker.exchange.super_tuples import SuperTuple
from tests.worker.lowering import field, in_tuple, maps, shape_of
from tests.worker.test_lowered_steps import run

WORDS = (
    "flag boolean, tiny byte, small short, middle int, large long, real double, single float, "
    "name string, raw binary, day date, moment timestamp, price decimal(10, 2), "
    "items array<int>, part struct<a: int, b: string>, pairs map<string, int>"
)
MOMENT = datetime.datetime(2015, 7, 15, 1, 2, 3, 456789, tzinfo=datetime.timezone.utc)
ROW = (
    True, 1, -2, 3, 2**40, -0.0, 0.5, "ü", b"\x00", datetime.date(2015, 7, 15), MOMENT,
    Decimal("12.34"), [1, None], {"a": 1, "b": "x"}, {"k": 1},
)
NOTHING = (None,) * len(ROW)


class Passed(beam.PTransform):  # type: ignore[misc]
    """Hands rows on as they are."""

    def expand(self, rows: Any) -> Any:
        return rows


def test_rows_of_every_type_are_written_as_they_were_read() -> None:
    rows = [ROW, NOTHING, ROW]
    found = [
        run(Passed(), *flags, rows=rows, words=WORDS, schema=WORDS)
        for flags in ((), ("--columns=off",), ("--verify_columns",))
    ]
    assert repr(found[0]) == repr(found[1]) == repr(found[2])
    assert found[0][1] == NOTHING


def test_plain_rows_reach_the_sink_without_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ColumnWriter, "write", None)  # objects would come by this
    words = "name string, number long"
    rows = [("a", 1), (None, 2)]
    assert run(Passed(), rows=rows, words=words, schema=words) == rows


def test_parquet_files_of_columns_are_those_of_objects(tmp_path: Path) -> None:
    words = "name string, number long, moment timestamp"
    rows = [(f"n{i}", i, MOMENT) for i in range(20)]
    tables = []
    for flag in ("on", "off"):
        session = LocalSession()
        path = tmp_path / flag
        options = PipelineOptions([f"--columns={flag}"])
        with beam.Pipeline(LocalRunner(session), options) as pipeline:
            read = pipeline | ReadFromSpark(session.createDataFrame(rows, words))
            read | WriteToSpark(str(path), schema=words)
        tables.append(pq.read_table(path))
    assert tables[0].schema == tables[1].schema
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows == 20


NARROW = shape_of("number long not null")
NUMBER = maps(NARROW, in_tuple(field(NARROW, "number")))


@pytest.mark.parametrize("flags", [(), ("--columns=off",)])
def test_a_number_that_does_not_fit_is_refused_with_its_row(flags: tuple[str, ...]) -> None:
    steps = "Number" >> beam.Map(lambda row: (row.number,))
    with pytest.raises(ColumnTypeError, match=r"column 'number'.*The row is \(number=300\)"):
        run(
            steps, *flags, rows=[(1,), (300,)], words="number long not null",
            schema="number byte", Number=NUMBER,
        )


def test_numbers_that_fit_a_narrow_column_are_cut_to_it() -> None:
    steps = "Number" >> beam.Map(lambda row: (row.number,))
    found = run(
        steps, "--verify_columns", rows=[(1,), (-128,)], words="number long not null",
        schema="number byte", Number=NUMBER,
    )
    assert found == [(1,), (-128,)]


@pytest.mark.parametrize("flags", [(), ("--columns=off",)])
def test_a_missing_value_is_refused_where_the_schema_says_none_is(flags: tuple[str, ...]) -> None:
    with pytest.raises(ColumnTypeError, match="a value is missing"):
        run(
            Passed(), *flags, rows=[("a",), (None,)], words="name string",
            schema="name string not null",
        )


def test_an_element_in_two_windows_is_two_rows() -> None:
    steps = beam.WindowInto(window.SlidingWindows(10, 5))
    words = "number long, at long"
    found = run(steps, rows=[(1, 7), (2, 12)], words=words, schema=words, timestamp="at")
    assert sorted(found) == [(1, 7), (1, 7), (2, 12), (2, 12)]


def writer(schema: pa.Schema, **more: Any) -> tuple[ColumnWriter, list[SuperTuple]]:
    sent: list[SuperTuple] = []
    made = ColumnWriter(3, "Sink", schema, sent.append, shard=0, super_tuple_bytes=100, **more)
    return made, sent


def rows_of(schema: pa.Schema, sent: list[SuperTuple]) -> list[Any]:
    payloads = [pa.array([row.payload for row in sent], pa.binary())]
    return [row for batch in decode(schema, payloads) for row in batch.to_pylist()]


PAIRS = pa.schema([("name", pa.string()), ("number", pa.int64())])
PAIR = TupleShape((TEXT, INT))


def pairs(*found: tuple[str, int]) -> ColumnValues:
    made = of_objects(list(found), PAIR)
    assert made is not None
    return made


def in_time(values: ColumnValues, windows: Any = GLOBAL) -> TimeColumns:
    return TimeColumns(np.arange(len(values)), windows, PANE_INFO_UNKNOWN)


def test_columns_and_objects_keep_their_order_in_a_sink() -> None:
    made, sent = writer(PAIRS)
    first, last = pairs(("a", 1), ("b", 2)), pairs(("d", 4))
    made.write_columns(first, in_time(first))
    made.write([("c", 3)], window.GlobalWindows.windowed_value(None))
    made.write_columns(last, in_time(last))
    made.flush()
    assert [row["name"] for row in rows_of(PAIRS, sent)] == ["a", "b", "c", "d"]
    assert [row.seq for row in sent] == [0, 2, 3]


def test_many_columns_are_cut_into_rows_that_travel_well() -> None:
    made, sent = writer(PAIRS)
    many = pairs(*((f"name {i}", i) for i in range(1_000)))
    made.write_columns(many, in_time(many))
    made.flush()
    assert [row["number"] for row in rows_of(PAIRS, sent)] == list(range(1_000))
    assert len(sent) > 10
    assert sum(row.elements for row in sent) == 1_000


def test_windows_that_differ_from_row_to_row_are_counted_once_each() -> None:
    made, sent = writer(PAIRS)
    values = pairs(("a", 1), ("b", 2))
    known: dict[int, Any] = {0: ("one",), 5: ("one", "two")}
    made.write_columns(values, in_time(values, Started(np.array([0, 5]), known)))
    made.flush()
    assert [row["name"] for row in rows_of(PAIRS, sent)] == ["a", "b", "b"]


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("name", pa.string())]),  # too few
        pa.schema([("name", pa.string()), ("number", pa.float64())]),  # whole numbers to reals
        pa.schema([("name", pa.int64()), ("number", pa.int64())]),
        pa.schema([("name", pa.string()), ("number", pa.timestamp("us", tz="UTC"))]),
    ],
)
def test_what_only_objects_can_tell_is_no_column(schema: pa.Schema) -> None:
    assert arrays_of(pairs(("a", 1)), schema) is None


def test_verify_columns_finds_a_column_that_objects_would_not_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(values: ColumnValues, schema: pa.Schema) -> list[pa.Array]:
        del schema
        return [pa.array(["a"] * len(values)), pa.array([8] * len(values))]

    monkeypatch.setattr(column_writer, "arrays_of", wrong)
    made, _ = writer(PAIRS, verified=True)
    values = pairs(("a", 7))
    with pytest.raises(ColumnsDifferError, match=r"Sink: for row 0 of column 'number'.*gave 7"):
        made.write_columns(values, in_time(values))


def test_fields_of_rows_go_to_the_columns_of_their_names() -> None:
    words = "b long, a string"
    found = run(Passed(), rows=[(1, "x")], words=words, schema="a string, b long")
    assert found == [("x", 1)]
