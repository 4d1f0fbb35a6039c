"""Readers of data engines: planned batches, Beam's unbounded source, Spark's data source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.data_engine.aligned import aligned, await_taken
from headrace.lab.data_engine.beam_reader import ReadFromEngine
from headrace.lab.data_engine.client import EngineStatus
from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.launch import DataEngines, Feed
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.endpoints.local_sinks import LocalSink
from headrace.lab.endpoints.names import SinkKind
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.probe.pipelines.count import COUNT
from headrace.lab.probe.pipelines.questions import QUESTIONS
from headrace.lab.verdict import judge
from headrace.lab.workload import Row
from headrace.testing import LocalRunner

SETTINGS = ProbeSettings(schedule=((1.0, 2_000.0),), keys=5, window_ms=250)
NAME = EventsName(module="headrace.lab.probe.events", settings=asdict(SETTINGS))


def status(made: int, total: int = 1_000, acknowledged: int = 0) -> EngineStatus:
    return EngineStatus(
        made=made, pulled=acknowledged, acknowledged=acknowledged, total=total,
        ended=made >= total, started=0.0, void="", unsustained="", replayed=0,
        latest_seconds=0.0, cpu_seconds=0.0,
    )


def feed(partitions: int, block: int) -> Feed:
    return Feed(addresses=tuple(f"127.0.0.1:{p}" for p in range(partitions)), block=block)


@given(
    st.integers(1, 4), st.integers(1, 9), st.integers(1, 400),
    st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4), max_size=12),
)
def test_no_batch_has_an_event_older_than_one_of_the_batch_before(
    partitions: int, block: int, most: int, steps: list[list[int]]
) -> None:
    ways = feed(partitions, block)
    shares = [ways.share(partition) for partition in range(partitions)]
    made, at, newest, read = [0] * partitions, [0] * partitions, -1, 0
    for step in [*steps, [1_000] * 4]:
        made = [min(1_000, m + s) for m, s in zip(made, step, strict=False)]
        ends = aligned(ways, [status(m) for m in made], at, most)
        numbers = [
            share.number(offset)
            for share, low, high in zip(shares, at, ends, strict=True)
            for offset in range(low, high)
        ]
        if numbers:
            assert min(numbers) > newest
            newest = max(numbers)
        assert len(numbers) <= most + block * partitions
        at, read = ends, read + len(numbers)
    assert read == sum(at)


def test_partitions_that_were_cut_off_are_read_to_their_ends() -> None:
    ways = feed(2, 10)
    statuses = [status(30, total=30), status(55, total=55)]
    assert aligned(ways, statuses, [0, 0], 10_000) == [30, 55]


def beam_rows(runner: Any, flags: list[str]) -> list[Row]:
    schedule = SETTINGS.read_schedule()
    with (
        DataEngines(NAME, schedule, partitions=2) as engines,
        LocalSink(SinkKind.VECTOR) as sink,
    ):
        pipeline = beam.Pipeline(runner, PipelineOptions(flags))
        events = pipeline | ReadFromEngine(engines.feed, ProbeGenerator(SETTINGS).from_batch)
        events | COUNT.build(SETTINGS) | sink.step()
        pipeline.run().wait_until_finish()
        statuses = engines.status()
        kept = sink.rows()
    assert kept is not None
    found = kept.read(COUNT.columns)
    assert [s.pulled for s in statuses] == [1_000, 1_000]
    assert [s.acknowledged for s in statuses] == [1_000, 1_000]
    return found


def test_the_local_runner_reads_engines_as_an_unbounded_source(tmp_path: Path) -> None:
    flags = ["--streaming", f"--checkpoint={tmp_path / 'c'}", "--progress=off"]
    found = beam_rows(LocalRunner(), flags)
    assert judge(found, QUESTIONS["count"].right(SETTINGS, np.arange(2_000))).right


def test_beams_own_runner_reads_engines_as_an_unbounded_source() -> None:
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    found = beam_rows(FnApiRunner(), ["--streaming"])
    assert judge(found, QUESTIONS["count"].right(SETTINGS, np.arange(2_000))).right


@pytest.mark.spark
def test_spark_reads_engines_each_event_once_and_acknowledges(spark: Any, tmp_path: Path) -> None:
    from headrace.lab.data_engine.spark_reader import engine_stream

    with DataEngines(NAME, Schedule.steady(2_000, 1), partitions=2) as engines:
        frame = engine_stream(spark, engines.feed, ProbeGenerator(SETTINGS).schema)
        query = (
            frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
            .start(str(tmp_path / "rows"))
        )
        try:
            await_taken(engines.feed, lambda: query.isActive)
            query.processAllAvailable()
        finally:
            query.stop()
        statuses = engines.status()
    rows = spark.read.parquet(str(tmp_path / "rows"))
    found = rows.selectExpr("count(*)", "count(distinct number)", "max(number)").first()
    assert tuple(found) == (2_000, 2_000, 1_999)
    assert sum(s.acknowledged for s in statuses) > 0
