from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import Row
from pyspark.sql import types as t

import headrace
from headrace.engine.spark.session import find_target
from headrace.errors import ColumnTypeError, OptionError, ResultError
from headrace.io import ReadFromSpark, WriteToSpark, to_dataframe

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


class Gauge(NamedTuple):
    name: str
    level: int | None


READINGS = [Gauge("north", 3), Gauge("south", None), Gauge("west", 5)]


def pipeline(session: Any, *flags: str) -> beam.Pipeline:
    options = PipelineOptions(["--progress=off", *flags])
    return beam.Pipeline(runner=headrace.SparkRunner(spark=session), options=options)


def run(session: Any, elements: list[Any], sink: beam.PTransform, kind: Any = Any) -> None:
    with pipeline(session) as p:
        p | beam.Create(elements) | beam.Map(lambda e: e).with_output_types(kind) | sink


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def kept(session: Any) -> set[int]:
    """The numbers of what Spark keeps in memory or on disk.

    Not how many: what an earlier test has left may go at any time.
    """
    return {int(number) for number in session.sparkContext._jsc.getPersistentRDDs().keySet()}


def test_rows_are_written_as_parquet_and_read_back(spark: Any, tmp_path: Path) -> None:
    run(spark, READINGS, WriteToSpark(str(tmp_path / "out")), Gauge)
    found = spark.read.parquet(str(tmp_path / "out"))
    assert dict(found.dtypes) == {"name": "string", "level": "bigint"}
    assert rows_of(found) == [("north", 3), ("south", None), ("west", 5)]


def test_mode_error_keeps_what_is_there_overwrite_replaces_append_adds(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    run(spark, [1], WriteToSpark(path, schema="n int"))
    with pytest.raises(OptionError, match="is there already.*mode='overwrite'"):
        run(spark, [2], WriteToSpark(path, schema="n int"))
    assert rows_of(spark.read.parquet(path)) == [(1,)]
    run(spark, [3], WriteToSpark(path, schema="n int", mode="append"))
    assert rows_of(spark.read.parquet(path)) == [(1,), (3,)]
    run(spark, [4], WriteToSpark(path, schema="n int", mode="overwrite"))
    assert rows_of(spark.read.parquet(path)) == [(4,)]


def test_format_options_and_partition_folders_reach_spark(
    spark: Any, tmp_path: Path
) -> None:
    sink = WriteToSpark(
        str(tmp_path / "out"), format="csv", schema="day string, n int",
        partition_by=["day"], options={"header": "true", "sep": ";"},
    )
    run(spark, [("mon", 1), ("tue", 2)], sink)
    (file,) = (tmp_path / "out" / "day=tue").glob("*.csv")
    assert file.read_text() == "n\n2\n"


def test_a_table_is_written_and_appended_to(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE gauges_test (name STRING, level BIGINT) USING parquet "
              f"LOCATION '{tmp_path / 'gauges'}'")
    try:
        for _ in range(2):
            run(spark, READINGS[:1], WriteToSpark(table="gauges_test", mode="append"), Gauge)
        assert rows_of(spark.table("gauges_test")) == [("north", 3), ("north", 3)]
    finally:
        spark.sql("DROP TABLE gauges_test")


def test_a_function_is_called_once_with_the_frame_in_the_users_session(
    spark: Any,
) -> None:
    calls: list[Any] = []

    def take(frame: Any) -> None:
        calls.append((frame.sparkSession is spark, rows_of(frame)))

    run(spark, [{"a": 1}, {"a": None}], WriteToSpark(function=take, schema="a int"))
    assert calls == [(True, [(1,), (None,)])]


def test_nothing_is_written_when_a_step_beside_the_sink_fails(
    spark: Any, tmp_path: Path
) -> None:
    before = kept(spark)
    with pytest.raises(ZeroDivisionError):
        with pipeline(spark) as p:
            numbers = p | beam.Create([1, 2])
            numbers | WriteToSpark(str(tmp_path / "out"), schema="n int")
            numbers | beam.Map(lambda n: n // 0)
    assert not (tmp_path / "out").exists()
    assert kept(spark) <= before


def test_no_rows_at_all_are_still_a_frame_with_its_columns(
    spark: Any, tmp_path: Path
) -> None:
    run(spark, [], WriteToSpark(str(tmp_path / "out"), schema="n int, s string"))
    found = spark.read.parquet(str(tmp_path / "out"))
    assert (found.columns, found.count()) == (["n", "s"], 0)


def test_a_value_that_does_not_fit_fails_the_pipeline_with_step_and_column(
    spark: Any, tmp_path: Path
) -> None:
    sink = "keep it" >> WriteToSpark(str(tmp_path / "out"), schema="n int")
    told = r"keep it: column 'n': 'many' \(str\) is no int32. The row is \(n='many'\)"
    with pytest.raises(ColumnTypeError, match=told):
        run(spark, ["many"], sink)


def test_a_collection_becomes_a_frame_in_the_users_session(spark: Any) -> None:
    with pipeline(spark) as p:
        gauges = p | beam.Create(READINGS).with_output_types(Gauge)
        handle = to_dataframe(gauges)
        with pytest.raises(ResultError, match="there is no DataFrame yet"):
            handle.dataframe()
    with handle:
        frame = handle.dataframe()
        assert frame.sparkSession is spark
        assert frame.schema == t.StructType(
            [t.StructField("name", t.StringType(), False), t.StructField("level", t.LongType())]
        )
        assert frame.where("level > 3").collect() == [Row(name="west", level=5)]


def test_two_handles_of_one_pipeline_and_two_uses_of_one_handle(spark: Any) -> None:
    with pipeline(spark, "--shards=3") as p:
        words = p | beam.Create(["a", "b", "a"])
        plain, again = to_dataframe(words), to_dataframe(words)
        counts = to_dataframe(
            words | beam.combiners.Count.PerElement(), "word string, n long", label="counts"
        )
    assert rows_of(plain.dataframe()) == rows_of(again.dataframe()) == [("a",), ("a",), ("b",)]
    assert plain.dataframe() is plain.dataframe()
    assert rows_of(counts.dataframe()) == [("a", 2), ("b", 1)]
    joined = counts.dataframe().join(plain.dataframe(), counts.dataframe().word == "b")
    assert joined.count() == 3
    for handle in (plain, again, counts):
        handle.close()


def test_frames_are_read_transformed_and_given_back_with_their_widths(spark: Any) -> None:
    made = spark.sql("SELECT 1Y AS a, 0.5F AS b, 12.30BD AS c, timestamp'2024-01-01' AS d, "
                     "array(named_struct('x', 1S)) AS e, map('k', date'2024-01-01') AS f")
    with pipeline(spark) as p:
        handle = to_dataframe(p | ReadFromSpark(made) | beam.Reshuffle())
    with handle:
        assert handle.dataframe().schema == made.schema
        assert handle.dataframe().collect() == made.collect()


@pytest.mark.not_verifying_traits("the mode calls functions twice")
def test_the_pipeline_runs_once_however_often_its_frame_is_used(
    spark: Any, tmp_path: Path
) -> None:
    marks = str(tmp_path)

    def mark(n: int) -> int:
        import tempfile

        tempfile.mkstemp(dir=marks)
        return n

    with pipeline(spark) as p:
        handle = to_dataframe(p | beam.Create([1, 2, 3]) | beam.Map(mark), "n long")
    for _ in range(3):
        assert rows_of(handle.dataframe()) == [(1,), (2,), (3,)]
    assert len(list(tmp_path.iterdir())) == 3
    handle.close()


def test_a_closed_handle_lets_spark_forget_the_rows(spark: Any) -> None:
    before = kept(spark)
    with pipeline(spark) as p:
        numbers = p | beam.Create([1])
        one, two = to_dataframe(numbers), to_dataframe(numbers)
    assert len(kept(spark) - before) == 1
    one.close()
    assert len(kept(spark) - before) == 1, "the other handle still holds the rows"
    two.close()
    two.close()
    assert kept(spark) <= before
    with pytest.raises(ResultError, match="closed"):
        one.dataframe()


def test_rows_are_forgotten_when_handle_and_frame_are_garbage(spark: Any) -> None:
    before = kept(spark)
    with pipeline(spark) as p:
        handle = to_dataframe(p | beam.Create([1]))
    frame = handle.dataframe()
    del handle, p
    gc.collect()
    assert len(kept(spark) - before) == 1, "the frame alone keeps its rows"
    del frame
    gc.collect()
    for _ in range(100):
        if kept(spark) <= before:
            break
        time.sleep(0.05)  # the release runs in a thread of its own
    assert kept(spark) <= before


def test_a_window_does_not_show_in_the_rows_but_each_window_has_its_own(
    spark: Any,
) -> None:
    from apache_beam.transforms import window

    with pipeline(spark) as p:
        handle = to_dataframe(
            p
            | beam.Create([window.TimestampedValue("x", 5)])
            | beam.WindowInto(window.SlidingWindows(10, 5)),
            "value string",
        )
    with handle:
        # Time 5 lies in the windows [0, 10) and [5, 15).
        assert rows_of(handle.dataframe()) == [("x",), ("x",)]


def test_what_does_not_say_its_columns_is_refused_when_it_is_applied(spark: Any) -> None:
    pairs = beam.Pipeline() | beam.Create([("a", 1)])
    with pytest.raises(ColumnTypeError, match="save: .*no column names; give a schema"):
        pairs | "save" >> WriteToSpark("unused")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "exactly one of path, table and function"),
        ({"path": "a", "table": "b"}, "exactly one of path, table and function"),
        ({"path": "a", "mode": "replace"}, "mode 'replace' is none of error, overwrite, append"),
        ({"function": print, "mode": "append"}, "it is the function that decides"),
    ],
)
def test_a_contradictory_write_is_refused_when_it_is_made(wrong: Any, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        WriteToSpark(**wrong)


def test_the_users_settings_are_the_same_after_a_run_and_hold_for_the_frames(
    spark: Any,
) -> None:
    name = "spark.sql.session.timeZone"
    session = spark.newSession()
    session.conf.set(name, "Asia/Tokyo")
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    before = dict(session.conf.getAll)
    made = session.sql("SELECT id, date_format(timestamp_seconds(id), 'HH') AS hour FROM range(1)")
    with pipeline(session) as p:
        handle = to_dataframe(p | ReadFromSpark(made))
    assert dict(session.conf.getAll) == before
    with handle:
        assert handle.dataframe().sparkSession is session
        # The epoch began at nine in the morning in Tokyo.
        assert rows_of(handle.dataframe()) == [(0, "09")]
    assert find_target(session, None).session.conf.get(name) == "Asia/Tokyo"
    assert find_target(session, None).session.conf.get("spark.sql.adaptive.enabled") == "false"


def test_a_runner_without_a_session_uses_that_of_the_frame(spark: Any) -> None:
    session = spark.newSession()
    seen: list[Any] = []
    options = PipelineOptions(["--progress=off"])
    with beam.Pipeline(runner=headrace.SparkRunner(), options=options) as p:
        rows = p | ReadFromSpark(session.range(2))
        rows | WriteToSpark(function=lambda frame: seen.append(frame.sparkSession))
    assert seen == [session]
