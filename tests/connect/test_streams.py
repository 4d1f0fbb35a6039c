"""Streaming pipelines on a Spark Connect server: epochs from our own loop alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

import headrace
from headrace.errors import UnsupportedTransformError
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.state.crash_points import Point, observed
from tests.connect.waiting import until
from tests.places import SLOW

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GAPS = [Point.AFTER_MANIFEST, Point.BEFORE_TASKS]


def pipeline(remote: Any, *flags: str) -> beam.Pipeline:
    options = PipelineOptions(["--progress=off", "--shards=2", *flags])
    return beam.Pipeline(runner=headrace.SparkRunner(remote), options=options)


def rows_at(remote: Any, path: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = remote.read.parquet(str(path)).select(*columns).collect()
    return sorted(map(tuple, found))


def jsons(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    """Let a file come, whole and at once."""
    folder.mkdir(exist_ok=True)
    aside = folder / f".{name}"
    aside.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.rename(aside, folder / name)


class EndedError(Exception):
    """The driver ends here."""


def test_a_test_stream_through_windows_to_a_folder(remote: Any, tmp_path: Path) -> None:
    def count(pair: Any) -> Any:
        Metrics.counter("here", "windows").inc()
        return pair

    p = pipeline(remote, "--streaming")
    script = TestStream()
    for second in range(4):
        script = script.add_elements([TimestampedValue((key, second), second) for key in "ab"])
    _ = (
        p
        | script.advance_watermark_to(2).advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(2))
        | beam.CombinePerKey(sum)
        | beam.Map(count)
        | WriteToSpark(str(tmp_path / "sums"), schema="key string, total long")
    )
    result = p.run()
    assert result.wait_until_finish() == "DONE"
    assert rows_at(remote, tmp_path / "sums", "key", "total") == [
        ("a", 1), ("a", 5), ("b", 1), ("b", 5)
    ]  # fmt: skip
    (counter,) = result.metrics().query(MetricsFilter().with_name("windows"))["counters"]
    assert counter.committed == 4


@pytest.mark.parametrize("gap", GAPS if SLOW else GAPS[:1])
def test_state_goes_on_after_a_driver_that_ended_in_a_gap(
    remote: Any, tmp_path: Path, gap: Point
) -> None:
    # In here, so that it travels by value: the server's Python does not have these tests.
    class Number(beam.DoFn):  # type: ignore[misc]
        SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

        def process(
            self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
        ) -> Iterator[Any]:
            seen.add(1)
            yield pair[0], pair[1], seen.read()

    def run() -> None:
        frame = remote.readStream.schema("key string, n long").json(str(tmp_path / "in"))
        p = pipeline(remote, "--available_now", f"--checkpoint={tmp_path / 'checkpoint'}")
        _ = (
            p
            | ReadFromSpark(frame.where("n < 100"))
            | beam.Map(lambda row: (row.key, row.n)).with_output_types(tuple[str, int])
            | beam.ParDo(Number())
            | WriteToSpark(str(tmp_path / "out"), schema="key string, n long, seen long")
        )
        p.run().wait_until_finish()

    def end(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (gap, 2):
            raise EndedError

    jsons(tmp_path / "in", "1.json", {"key": "a", "n": 1}, {"key": "b", "n": 100})
    run()
    jsons(tmp_path / "in", "2 %[2].json", {"key": "a", "n": 2})
    with observed(end), pytest.raises(EndedError):
        run()
    jsons(tmp_path / "in", "3.json", {"key": "a", "n": 3})
    run()
    found = rows_at(remote, tmp_path / "out", "key", "n", "seen")
    assert [(key, n) for key, n, _ in found] == [("a", 1), ("a", 2), ("a", 3)]
    assert sorted(seen for *_, seen in found) == [1, 2, 3]


def test_a_stream_is_drained(remote: Any, tmp_path: Path) -> None:
    frame = remote.readStream.format("rate").option("rowsPerSecond", 5).load()
    p = pipeline(remote)
    _ = (
        p
        | ReadFromSpark(frame, timestamp="timestamp")
        | beam.WindowInto(FixedWindows(3600))
        | beam.Map(lambda row: ("all", row.value))
        | beam.GroupByKey()
        | beam.FlatMap(lambda pair: [(pair[0], value) for value in pair[1]])
        | WriteToSpark(str(tmp_path / "out"), schema="key string, value long")
    )
    result = p.run()
    until(lambda: result.stream_status.epoch >= 2)
    assert result.drain() == "DRAINED"
    values = [value for _, value in rows_at(remote, tmp_path / "out", "key", "value")]
    assert values == list(range(len(values))) and len(values) >= 5


def test_a_source_of_beams_is_cancelled_while_a_step_works(remote: Any, tmp_path: Path) -> None:
    begun = str(tmp_path / "begun")

    def wait(element: Any) -> Any:
        import time

        with open(begun, "w"):
            time.sleep(120)
        return element

    p = pipeline(remote, "--streaming")
    _ = (
        p
        | PeriodicImpulse(Timestamp.now(), fire_interval=0.5, apply_windowing=False)
        | beam.Map(wait)
    )
    result = p.run()
    until(lambda: os.path.exists(begun))
    start = time.monotonic()
    assert result.cancel() == "CANCELLED"
    assert time.monotonic() - start < 60


def test_what_is_no_rows_of_one_source_is_refused_with_the_way_out(remote: Any) -> None:
    rate = remote.readStream.format("rate").load()
    for frame, why in (
        (rate.groupBy("value").count(), "made by aggregate over its stream"),
        (rate.dropDuplicates(["value"]), "made by deduplicate over its stream"),
        (rate.union(rate), "reads several streams|made by set op over"),
        (remote.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load(),
         "format 'rate-micro-batch' cannot be read"),
    ):  # fmt: skip
        p = pipeline(remote)
        _ = p | ReadFromSpark(frame) | beam.Map(str)
        with pytest.raises(UnsupportedTransformError, match=why) as refusal:
            p.run().wait_until_finish()
        assert "headrace.session()" in str(refusal.value)


@pytest.mark.parametrize("simple", [False, True], ids=["reader", "simple reader"])
def test_a_python_data_source_is_asked_for_its_offsets(
    remote: Any, tmp_path: Path, simple: bool
) -> None:
    class Reader(DataSourceStreamReader):  # type: ignore[misc]
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
            del limit
            return {"at": min(start["at"] + 3, 7)}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            return [InputPartition(n) for n in range(start["at"], end["at"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
            yield partition.value, str(partition.value)

    class Simple(SimpleDataSourceStreamReader):  # type: ignore[misc]
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: Any) -> tuple[Iterator[tuple[int, str]], dict[str, int]]:
            end = {"at": min(start["at"] + 3, 7)}
            return self.readBetweenOffsets(start, end), end

        def readBetweenOffsets(self, start: Any, end: Any) -> Iterator[tuple[int, str]]:
            return iter([(n, str(n)) for n in range(start["at"], end["at"])])

    class Gauges(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "gauges_simple" if simple else "gauges"

        def schema(self) -> str:
            return "n long, text string"

        if simple:

            def simpleStreamReader(self, schema: Any) -> Simple:
                del schema
                return Simple()

        else:

            def streamReader(self, schema: Any) -> Reader:
                del schema
                return Reader()

    remote.dataSource.register(Gauges)
    frame = remote.readStream.format(Gauges.name()).load().where("n <> 5")
    for expected in (3, 5, 6):  # each run takes what the reader offers, and the next one goes on
        p = pipeline(remote, f"--checkpoint={tmp_path / 'checkpoint'}", "--available_now")
        _ = (
            p
            | ReadFromSpark(frame)
            | beam.Map(lambda row: (row.n, row.text))
            | WriteToSpark(str(tmp_path / "out"), schema="n long, text string")
        )
        p.run().wait_until_finish()
        found = rows_at(remote, tmp_path / "out", "n", "text")
        assert found == [(n, str(n)) for n in range(7) if n != 5][:expected]
