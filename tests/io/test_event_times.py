"""Rows and their event times inside a task; no Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from headrace.errors import ColumnTypeError
from headrace.io.rows import row_class
from headrace.plan.names import PARTITION_COLUMN, TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.worker.batched.batches import Columns
from headrace.worker.ends import row_reader
from headrace.worker.ends.row_reader import RowReader

NUMBERS = t.StructType([t.StructField("n", t.LongType())])
TIME, PARTITION = TIME_COLUMN, PARTITION_COLUMN


def reader(schema: t.StructType = NUMBERS, **limits: Any) -> RowReader:
    coder = coders.WindowedValueCoder(coders.registry.get_coder(row_class(schema)))
    return RowReader(coder, **limits)


def batch(times: list[int | None], partitions: list[Any] | None = None) -> pa.RecordBatch:
    made: dict[str, Any] = {"n": range(len(times)), TIME + "at": pa.array(times, pa.int64())}
    if partitions is not None:
        made[PARTITION + "p"] = pa.array(partitions)
    return pa.record_batch(made)


def test_rows_without_a_time_are_left_out_and_counted_where_that_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read = reader(step="Read orders")
    cases: list[list[int | None]] = [[7, None, 5], [None, None], [9]]
    for times in cases:
        made = batch(times, ["a"] * len(times)).rename_columns(
            ["n", TIME_OR_DROP_COLUMN + "at", PARTITION + "p"]
        )
        for rows, meta in read.timed(made, 10):
            assert len(rows) == len(meta.times)
            assert None not in meta.times
    assert (read.dropped, read.highs) == (3, {"a": 9})
    assert caplog.text.count("Read orders: rows are left out, as column 'at' has no time") == 1


def test_rows_get_their_times_and_no_column_more() -> None:
    read = reader()
    found = list(read.timed(batch([70, 50, 60]), 2))
    assert [[tuple(row) for row in rows] for rows, _ in found] == [[(0,), (1,)], [(2,)]]
    one, two = (meta for _, meta in found)
    window, pane = (GlobalWindow(),), PANE_INFO_UNKNOWN
    assert one == Columns([70, 50], [window] * 2, [pane] * 2)
    assert two == Columns([60], [window], [pane])
    assert read.highs == {"": 70}


def test_the_greatest_time_is_kept_for_each_partition_over_all_batches() -> None:
    read = reader()
    for part in (batch([5, 9, 7], [2, 1, 2]), batch([8, 1], [1, 3]), batch([6, 9], [2, 3])):
        list(read.timed(part, 10))
    assert read.highs == {"1": 9, "2": 7, "3": 9}


def test_rows_that_name_no_partition_are_one_of_their_own() -> None:
    read = reader()
    list(read.timed(batch([5, 9, 7], ["", None, "x"]), 10))
    assert read.highs == {"": 5, row_reader.NO_PARTITION: 9, "x": 7}


def test_rows_above_the_ceiling_are_read_but_not_counted() -> None:
    read = reader(ceiling=100)
    ((rows, meta),) = read.timed(batch([99, 101, 100, 500], ["a", "a", "b", "c"]), 10)
    assert (len(rows), meta.times) == (4, [99, 101, 100, 500])
    assert read.highs == {"a": 99, "b": 100}


def test_a_batch_wholly_above_the_ceiling_counts_for_nothing() -> None:
    read = reader(ceiling=4)
    assert [len(rows) for rows, _ in read.timed(batch([5, 6]), 10)] == [2]
    assert read.highs == {}


def test_a_row_without_a_time_is_refused_by_the_users_column() -> None:
    with pytest.raises(ColumnTypeError, match="column 'at' gives the rows their event time, and"):
        list(reader().timed(batch([1, None, 3]), 10))


def test_rows_of_a_frame_without_event_times_have_the_time_they_are_read_at() -> None:
    plain = pa.record_batch({"n": [1, 2]})
    ((_, meta),) = reader().timed(plain, 10)
    assert meta.timestamp == MIN_TIMESTAMP
    read = reader(now=1_500_000)
    ((_, meta),) = read.timed(plain, 10)
    assert (meta.timestamp, meta.windows) == (Timestamp(1.5), (GlobalWindow(),))
    assert (read.meta.timestamp, read.highs) == (Timestamp(1.5), {})


def test_a_row_of_no_columns_may_still_have_a_time() -> None:
    read = reader(t.StructType([]))
    made = pa.record_batch({TIME + "at": pa.array([3, 4], pa.int64())})
    ((rows, meta),) = read.timed(made, 10)
    assert (rows, meta.times, read.highs) == ([(), ()], [3, 4], {"": 4})


def test_an_empty_batch_gives_nothing() -> None:
    read = reader()
    assert list(read.timed(batch([]), 10)) == []
    assert read.highs == {}


@given(
    rows=st.lists(st.tuples(st.integers(-100, 100), st.sampled_from("abc")), max_size=40),
    most=st.integers(1, 9),
    cut=st.integers(0, 40),
    ceiling=st.none() | st.integers(-100, 100),
)
def test_times_and_highs_are_those_of_a_loop_over_the_rows(
    rows: list[tuple[int, str]], most: int, cut: int, ceiling: int | None
) -> None:
    read, times = reader(ceiling=ceiling), []
    for part in (rows[:cut], rows[cut:]):
        made = batch([time for time, _ in part], pa.array([p for _, p in part], pa.string()))
        for values, meta in read.timed(made, most):
            assert len(values) == len(meta.times) == len(meta.windows) == len(meta.panes) <= most
            times += meta.times
    highs: dict[str, int] = {}
    for time, name in rows:
        if ceiling is None or time <= ceiling:
            highs[name] = max(time, highs.get(name, time))
    assert (times, read.highs) == ([time for time, _ in rows], highs)
