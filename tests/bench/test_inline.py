"""The driver without Spark: right answers, right routing, failures that surface."""

from __future__ import annotations

import cProfile
import pstats
from dataclasses import replace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from benchmarks.cases import CASES, Case, find
from benchmarks.inline import InlineRunner, Thread, _box, run_inline
from benchmarks.profile import run_case
from benchmarks.systems import answer_of
from headrace.errors import PlanError, TransportError
from headrace.plan.settings import Settings
from headrace.plan.supersteps import ChannelKind
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple


def run(build: Any, thread: Thread, shards: int = 2, profiler: Any = None) -> Any:
    runner = InlineRunner(thread=thread, profiler=profiler)
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([f"--shards={shards}"]))
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_gives_the_answer_of_its_formula(case: Case) -> None:
    result = run(lambda p: case.build(p, 3_001), Thread.THIS, shards=3)
    assert answer_of(result) == case.expected(3_001)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_answer_does_not_depend_on_the_number_of_shards(shards: int) -> None:
    (case,) = find(["sum_sliding"])
    result = run(lambda p: case.build(p, 1_000), Thread.OWN, shards)
    assert answer_of(result) == case.expected(1_000)
    assert {task.shard for task in result.run.tasks} == set(range(shards))


@pytest.mark.parametrize("thread", Thread)
def test_side_inputs_arrive_before_the_elements_that_look_at_them(thread: Thread) -> None:
    def build(p: Any) -> None:
        side = beam.pvalue.AsList(p | "Side" >> beam.Create([1, 2]))
        main = p | beam.Create([10, 20, 30]) | beam.Map(lambda x, s: x + sum(s), side)
        assert_that(main, equal_to([13, 23, 33]))

    run(build, thread)


def test_a_failed_assertion_inside_the_pipeline_surfaces() -> None:
    def build(p: Any) -> None:
        assert_that(p | beam.Create([1]), equal_to([2]))

    with pytest.raises(Exception, match="Failed assert"):
        run(build, Thread.THIS)


def test_a_row_for_a_shard_that_is_not_there_is_refused() -> None:
    row = SuperTuple(2, Rank.DATA, 4, PayloadKind.ROWS, 0, 1, b"")
    with pytest.raises(TransportError, match="channel 4 sent a row to shard 2; there are 2"):
        _box(row, 2)


def test_a_profile_holds_the_calls_of_the_pipelines_own_functions() -> None:
    profiler = cProfile.Profile()
    (case,) = find(["group_int"])
    _, answer = run_case(case, 500, 2, profiler)
    assert answer == case.expected(500)
    profiles = pstats.Stats(profiler).get_stats_profile().func_profiles
    assert profiles["check"].ncalls == "500"  # 500 numbers on 10000 keys: a group each


def test_a_plan_that_writes_a_dataframe_is_refused_by_name() -> None:
    (case,) = find(["maps_3"])
    plan = run(lambda p: case.build(p, 10), Thread.THIS).run.plan
    written = replace(plan.channels[-1], kind=ChannelKind.OUTPUT, target_stages=(), label="table")
    with pytest.raises(PlanError, match="table: DataFrames need Spark"):
        run_inline(replace(plan, channels=(written,)), Settings())


def test_a_profiler_without_the_stages_in_its_thread_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ask for Thread\.THIS"):
        run(lambda p: p | beam.Create([1]), Thread.OWN, profiler=cProfile.Profile())
