"""A plan becomes one task per superstep that knows which rows are its own."""

from __future__ import annotations

import pickle
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsList
from apache_beam.transforms import environments

from headrace.compiler.compile import compile_pipeline
from headrace.engine.spark.launch import _read, launch, on_shard
from headrace.engine.tasks import NO_READER, has_side_inputs, only, reached, tasks_of
from headrace.plan.settings import Settings
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.testing import LocalRunner
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, from_batch


def plan_of(build: Any, shards: int = 3) -> Plan:
    pipeline = beam.Pipeline(runner=LocalRunner())
    build(pipeline)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    return compile_pipeline(proto, shards=shards, name="test")


def two_exchanges(p: beam.Pipeline) -> None:
    pairs = p | beam.Impulse() | beam.Map(lambda _: (1, 2))
    sums = pairs | "One" >> beam.GroupByKey() | beam.Map(lambda g: (0, len(list(g[1]))))
    sums | "Two" >> beam.GroupByKey()


def with_side_input(p: beam.Pipeline) -> None:
    made = p | beam.Impulse()
    side = made | "Side" >> beam.Map(lambda _: 1)
    made | "Main" >> beam.Map(lambda x, s: s, AsList(side))


class Frame:
    """Writes down what a DataFrame is asked to do."""

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def range(self, *args: int) -> Frame:
        self._log.append(("range", *args))
        return self

    def mapInArrow(self, function: Any, schema: str) -> Frame:
        self._log.append("map")
        return self

    def repartitionById(self, shards: int, column: str) -> Frame:
        self._log.append(("exchange", shards, column))
        return self

    def sortWithinPartitions(self, column: str) -> Frame:
        self._log.append(("sort", column))
        return self


def test_supersteps_are_a_chain_with_an_exchange_between_each_two() -> None:
    plan = plan_of(two_exchanges)
    log: list[Any] = []
    launch(plan, Frame(log), Settings())
    later = [("exchange", 3, "shard"), "map"] * (len(plan.supersteps) - 1)
    assert log == [("range", 0, 3, 1, 3), "map", *later]
    assert len(plan.supersteps) >= 2


def test_rows_are_sorted_only_before_a_superstep_that_reads_a_side_input() -> None:
    plan = plan_of(with_side_input)
    log: list[Any] = []
    launch(plan, Frame(log), Settings())
    sorts = [i for i, entry in enumerate(log) if entry == ("sort", "rank")]
    assert len(sorts) == 1
    assert log[sorts[0] - 1] == ("exchange", 3, "shard")
    wanting = [has_side_inputs(plan, task) for task in tasks_of(plan, Settings())]
    assert wanting.count(True) == 1
    assert wanting[0] is False


def test_every_channel_is_read_at_the_depth_of_its_reader() -> None:
    plan = plan_of(two_exchanges)
    depth = {stage.stage_id: stage.superstep for stage in plan.stages()}
    for task in tasks_of(plan, Settings()):
        for channel, at in zip(plan.channels, task.depths, strict=True):
            wanted = {depth[s] for s in channel.target_stages} or {NO_READER}
            assert {at} == wanted


def test_reports_are_numbered_by_the_stages_place_in_the_plan() -> None:
    plan = plan_of(two_exchanges)
    names = [stage.name for stage in plan.stages()]
    for task in tasks_of(plan, Settings()):
        for stage, number in zip(task.superstep.stages, task.stage_numbers, strict=True):
            assert names[number] == stage.name


def test_a_task_can_be_pickled_as_it_must_travel() -> None:
    for task in tasks_of(plan_of(two_exchanges), Settings()):
        assert pickle.loads(pickle.dumps(task)) == task


def test_the_first_superstep_drops_the_numbers_it_is_fed_and_later_ones_do_not() -> None:
    first, second, *_ = tasks_of(plan_of(two_exchanges), Settings())
    fed = iter([1, 2])
    assert list(_read(first, fed)) == []
    assert list(fed) == []  # read to the end: Spark's writer would wait for ever otherwise
    assert list(_read(second, iter([1, 2]))) == [1, 2]


def test_outside_spark_a_task_runs_as_shard_zero() -> None:
    first, *_ = tasks_of(plan_of(two_exchanges, shards=1), Settings())
    rows = [row for batch in on_shard(first)(iter(())) for row in from_batch(batch)]
    assert [row for row in rows if row.channel == REPORT_CHANNEL]
    assert [row.elements for row in rows if row.channel != REPORT_CHANNEL] == [1]


def test_a_source_reaches_the_stages_that_local_channels_lead_to_and_no_others() -> None:
    plan = plan_of(two_exchanges)
    sources = [c for c in plan.channels if c.kind is ChannelKind.SOURCE]
    (task, *_) = tasks_of(plan, Settings())
    for source in sources:
        found = reached(plan, source)
        assert set(source.target_stages) <= found
        assert found <= {stage.stage_id for stage in task.superstep.stages}
        part = only(task, found)
        assert {s.stage_id for s in part.superstep.stages} == found
        assert len(part.stage_numbers) == len(found)
    assert only(task, set()).superstep.stages == ()


@pytest.mark.parametrize("shards", [1, 4])
def test_there_are_as_many_shards_as_the_plan_says(shards: int) -> None:
    tasks = tasks_of(plan_of(two_exchanges, shards), Settings())
    assert {task.shards for task in tasks} == {shards}
