"""Batches of one shape share a plan of Spark's, and each is told what it does by its own job."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.engine.spark import classic_door, kept_batches
from headrace.engine.spark.kept_batches import tasks_from, tasks_text
from headrace.engine.tasks import tasks_of
from headrace.plan.settings import Settings
from headrace.worker.exchange.packed_reports import packed, unpacked
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, SuperTuple, to_batch
from tests.engine.test_launch import plan_of, two_exchanges


class Tell(beam.DoFn):  # type: ignore[misc]
    def __init__(self, word: str) -> None:
        self._word = word

    def process(self, element: Any) -> None:
        if self._word == "fail":
            msg = f"no {element}"
            raise ValueError(msg)
        Metrics.counter("kept", self._word).inc(element[1])


def told(spark: Any, word: str, *options: str, grouped: bool = True) -> dict[str, int]:
    """Run a batch that counts by a word of its own."""
    flags = PipelineOptions(["--progress=off", "--shards=2", *options])
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(spark), options=flags)
    pairs = pipeline | beam.Create([(1, 2), (2, 3), (1, 4)])
    if grouped:
        pairs = pairs | beam.GroupByKey() | beam.Map(lambda group: (group[0], sum(group[1])))
    _ = pairs | "Tell" >> beam.ParDo(Tell(word))
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_namespace("kept"))["counters"]
    return {counter.key.metric.name: counter.result for counter in found}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """So many exchanges as each plan has that was made."""
    made: list[int] = []
    beams = kept_batches.launch_any

    def launch_any(session: Any, shards: int, sorted_by: Any) -> Any:
        made.append(len(sorted_by))
        return beams(session, shards, sorted_by)

    monkeypatch.setattr(kept_batches, "launch_any", launch_any)
    monkeypatch.setattr(classic_door, "_kept", {})
    return made


@pytest.mark.spark
def test_each_batch_of_a_shape_does_its_own_by_one_plan(spark: Any, planned: list[int]) -> None:
    for word in ("one", "two", "one"):
        assert told(spark, word) == {word: 9}
    (exchanges,) = planned
    assert told(spark, "flat", grouped=False) == {"flat": 9}
    assert len(planned) == 2
    assert planned[1] < exchanges


@pytest.mark.spark
def test_a_batch_that_fails_names_its_step_and_leaves_the_plan_to_the_next(
    spark: Any, planned: list[int]
) -> None:
    with pytest.raises(Exception, match=r"no \(.*Tell"):
        told(spark, "fail")
    assert told(spark, "after") == {"after": 9}
    assert len(planned) == 1


@pytest.mark.spark
def test_a_session_with_other_settings_gets_a_plan_of_its_own(
    spark: Any, planned: list[int]
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "17")
    assert told(spark, "one") == told(other, "one") == {"one": 9}
    assert len(planned) == 2


@pytest.mark.spark
def test_a_batch_that_is_too_long_to_be_told_has_a_plan_of_its_own(
    spark: Any, planned: list[int]
) -> None:
    word = os.urandom(40_000).hex()
    assert told(spark, word) == {word: 9}
    assert planned == []


@pytest.mark.spark
def test_no_more_plans_are_kept_than_a_few(
    spark: Any, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classic_door, "MOST_KEPT", 1)
    for grouped in (True, False, True):
        assert told(spark, "a", grouped=grouped) == {"a": 9}
    assert len(planned) == 3


def test_no_plan_is_kept_where_the_properties_of_jobs_are_written_down() -> None:
    """Options may hold what is not for everybody, and Spark could not see it to leave it out."""
    conf = {"spark.eventLog.enabled": "True"}
    session = SimpleNamespace(sparkContext=SimpleNamespace(_conf=conf))
    assert classic_door.ClassicDoor(session).kept(None, "shape", dict) is None


def test_tasks_are_told_as_they_were() -> None:
    tasks = tuple(tasks_of(plan_of(two_exchanges), Settings()))
    assert tasks_from(tasks_text(tasks)) == tasks


def test_reports_of_several_tasks_come_one_after_the_other() -> None:
    def parts(*reports: tuple[int, bytes]) -> list[bytes]:
        rows = [SuperTuple(0, 2, REPORT_CHANNEL, 4, seq, 1, data) for seq, data in reports]
        batches = [to_batch(rows)] if rows else []
        return [part for batch in packed(batches) for part in batch.column(0).to_pylist()]

    first, second = [(1, b"a"), (2, os.urandom(20_000))], [(3, b"")]
    assert unpacked([*parts(*first), *parts(), *parts(*second)]) == first + second
