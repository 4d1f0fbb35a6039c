"""Streaming DataFrames and event times as Spark describes and computes them; no query runs."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from pyspark.sql import types as t

from headrace.errors import ColumnTypeError, OptionError, UnsupportedTransformError
from headrace.io import (
    BoundedOutOfOrderness,
    Monotonic,
    ReadFromSpark,
    WriteToSpark,
    to_dataframe,
)
from headrace.io.frames import frames_of
from headrace.plan.clocks import SourceClock
from headrace.plan.names import PARTITION_COLUMN, READ_FROM_SPARK_URN, TIME_COLUMN

SCHEMA = t.StructType(
    [
        t.StructField("key", t.StringType()),
        t.StructField("part", t.IntegerType()),
        t.StructField("at", t.TimestampType()),
    ]
)


@dataclasses.dataclass(frozen=True)
class Described:
    """As much of a DataFrame as describing a read takes."""

    schema: t.StructType = SCHEMA
    isStreaming: bool = True

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def selectExpr(self, *unused: str) -> Described:
        return self


def told(read: ReadFromSpark) -> dict[str, Any]:
    urn, payload = read.to_runner_api_parameter(None)
    assert urn == READ_FROM_SPARK_URN
    return dict(json.loads(payload))


def test_a_streaming_frame_makes_an_unbounded_collection() -> None:
    p = beam.Pipeline()
    streaming = p | "s" >> ReadFromSpark(Described())
    bounded = p | "b" >> ReadFromSpark(Described(isStreaming=False))
    assert not streaming.is_bounded
    assert not (streaming | beam.Map(print)).is_bounded
    assert bounded.is_bounded


def test_the_proto_says_what_a_worker_must_know_and_nothing_of_the_policy() -> None:
    read = ReadFromSpark(Described(), ["key"], timestamp="at", partition="part", watermark=5)
    found = told(read)
    assert [field["name"] for field in found.pop("columns")["fields"]] == ["key"]
    assert found == {"timestamp": "at", "partition": "part", "streaming": True}
    other = ReadFromSpark(Described(), ["key"], timestamp="at", partition="part")
    assert other.to_runner_api_parameter(None) == read.to_runner_api_parameter(None)
    plain = told(ReadFromSpark(Described(isStreaming=False)))
    assert (plain["timestamp"], plain["partition"], plain["streaming"]) == (None, None, False)


def test_what_is_asked_of_each_source_is_found_under_its_full_name() -> None:
    p = beam.Pipeline()
    p | "timed" >> ReadFromSpark(Described(), timestamp="at", watermark=Monotonic(idle_after=3))
    p | "late" >> ReadFromSpark(Described(), timestamp="at", watermark=2, partition="part")
    p | "strict" >> ReadFromSpark(Described(), timestamp="at")
    p | "plain" >> ReadFromSpark(Described())
    p | "bounded" >> ReadFromSpark(Described(isStreaming=False))
    frames = frames_of(p)
    assert set(frames.streaming()) == {"timed", "late", "strict", "plain"}
    assert frames.reads["late"].partition == "part"
    assert frames.reads["late"].policy == BoundedOutOfOrderness(2)
    assert {name: read.clock() for name, read in frames.reads.items()} == {
        "timed": SourceClock(idle_after=3_000_000),
        "late": SourceClock(delay=2_000_000),
        "strict": SourceClock(),
        "plain": SourceClock(by_arrival=True),
        "bounded": SourceClock(by_arrival=True),
    }


@pytest.mark.parametrize("given", [{"watermark": 5}, {"partition": "part"}])
def test_what_concerns_event_times_is_refused_where_there_are_none(given: Any) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(given))} says nothing without timestamp"):
        ReadFromSpark(Described(), **given)


def test_a_column_that_is_not_there_or_has_no_time_in_it_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match="no column 'when'; there are key, part, at"):
        ReadFromSpark(Described(), timestamp="when")
    with pytest.raises(ColumnTypeError, match="no column 'where'"):
        ReadFromSpark(Described(), timestamp="at", partition="where")
    with pytest.raises(ColumnTypeError, match="column 'key' of type string cannot give the event"):
        ReadFromSpark(Described(), timestamp="key")
    odd = t.StructType(
        [t.StructField("ntz", t.TimestampNTZType()), t.StructField("raw", t.BinaryType()),
         t.StructField("at", t.TimestampType())]
    )
    with pytest.raises(ColumnTypeError, match="'ntz' .* no time zone; cast it to timestamp"):
        ReadFromSpark(Described(odd), ["at"], timestamp="ntz")
    with pytest.raises(ColumnTypeError, match="'raw' of type binary cannot name a partition"):
        ReadFromSpark(Described(odd), ["at"], timestamp="at", partition="raw")


def test_a_collection_that_never_ends_is_no_dataframe() -> None:
    p = beam.Pipeline()
    to_dataframe(p | ReadFromSpark(Described()), label="mine")
    told = r"mine: to_dataframe gives a whole collection.*WriteToSpark\(function=\.\.\.\)"
    with pytest.raises(UnsupportedTransformError, match=told):
        frames_of(p).check_epochs()


def test_two_sinks_may_not_share_the_folders_of_their_epochs() -> None:
    p = beam.Pipeline()
    rows = p | ReadFromSpark(Described())
    rows | "one" >> WriteToSpark("out/x")
    rows | "delta" >> WriteToSpark("out/x", format="delta")
    rows | "table" >> WriteToSpark(table="x")
    frames_of(p).check_epochs()
    rows | "two" >> WriteToSpark("out/x/", format="csv")
    with pytest.raises(OptionError, match="two and one write to the same path, out/x, and would"):
        frames_of(p).check_epochs()


def test_a_column_that_the_epoch_would_hide_is_refused_before_anything_runs() -> None:
    p = beam.Pipeline()
    schema = t.StructType([t.StructField("epoch", t.LongType())])
    rows = p | ReadFromSpark(Described())
    rows | "table" >> WriteToSpark(table="x", schema=schema)
    frames_of(p).check_epochs()
    rows | "out" >> WriteToSpark("y", schema=schema)
    with pytest.raises(OptionError, match="out: readers find the epoch's number in a column"):
        frames_of(p).check_epochs()


@pytest.mark.spark
def test_sparks_own_streaming_frames_are_read_as_they_describe_themselves(
    spark: Any, tmp_path: Path
) -> None:
    rate = spark.readStream.format("rate").load()
    read = ReadFromSpark(rate, ["value"], timestamp="timestamp")
    assert read.frame.isStreaming
    assert read.frame.dtypes == [("value", "bigint"), (f"{TIME_COLUMN}timestamp", "bigint")]
    assert read.row_class._fields == ("value",)  # type: ignore[attr-defined]
    files = spark.readStream.schema("`a.b` string, n int").json(str(tmp_path))
    with_dot = ReadFromSpark(files.withColumnRenamed("a.b", "ab"), timestamp="n", partition="n")
    assert with_dot.frame.dtypes == [
        ("ab", "string"), ("n", "int"), (f"{TIME_COLUMN}n", "bigint"),
        (f"{PARTITION_COLUMN}n", "bigint"),
    ]
    hidden = ReadFromSpark(files, ["n"], timestamp="n", partition="a.b")
    assert hidden.frame.dtypes[2] == (f"{PARTITION_COLUMN}a.b", "string")


@pytest.mark.spark
def test_every_kind_of_time_becomes_microseconds(spark: Any) -> None:
    """By hand: 2024-02-29 is day 19,782 since 1970; the session's zone must not move a date."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    made = session.sql(
        """SELECT timestamp'1970-01-01 00:00:01.000002Z' AS instant, date'2024-02-29' AS day,
        7 AS whole, -2Y AS tiny, 1700000000.123456D AS double, 1.5F AS single,
        CAST(1700000000.1234567 AS decimal(38, 18)) AS decimal"""
    )
    wanted = {
        "instant": 1_000_002,
        "day": 19_782 * 86_400 * 1_000_000,
        "whole": 7_000_000,
        "tiny": -2_000_000,
        "double": 1_700_000_000_123_456,
        "single": 1_500_000,
        "decimal": 1_700_000_000_123_457,
    }
    assert 19_782 == (datetime.date(2024, 2, 29) - datetime.date(1970, 1, 1)).days
    for name, micros in wanted.items():
        (row,) = ReadFromSpark(made, ["whole"], timestamp=name).frame.collect()
        assert tuple(row) == (7, micros), name


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_is_no_time_is_missing_and_does_not_wrap_around(spark: Any, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    made = session.sql(
        """SELECT * FROM VALUES (double('NaN'), 9223372036855L), (double('inf'), -9223372036855L),
        (-1e300D, NULL), (NULL, 9223372036854775807L) AS t(x, n)"""
    )
    for name in ("x", "n"):
        found = ReadFromSpark(made, [name], timestamp=name).frame.collect()
        assert [row[1] for row in found] == [None] * 4, name


@pytest.mark.spark
def test_partitions_are_named_by_numbers_or_text(spark: Any) -> None:
    made = spark.sql("SELECT 1 AS n, 3S AS small, 'x' AS word, true AS flag, date'2024-01-01' AS d")
    found = [
        ReadFromSpark(made, ["n"], timestamp="n", partition=name).frame.collect()[0][2]
        for name in ("small", "word", "flag", "d")
    ]
    assert found == [3, "x", "true", "2024-01-01"]
