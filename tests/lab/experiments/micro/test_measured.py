"""Tasks in one thread: right answers, facts of each task, a profile that sees user code."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from headrace.lab.experiments.micro.cases import CASES, Case, find
from headrace.lab.experiments.micro.measured import MeasuredDoor, measured_runner
from headrace.lab.experiments.micro.profile import run_case
from headrace.lab.experiments.micro.runners import answer_of


def run(build: Any, shards: int = 2) -> tuple[MeasuredDoor, Any]:
    door = MeasuredDoor()
    options = PipelineOptions([f"--shards={shards}"])
    pipeline = beam.Pipeline(runner=measured_runner(door), options=options)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return door, result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_gives_the_answer_of_its_formula(case: Case) -> None:
    _, result = run(lambda p: case.build(p, 3_001), shards=3)
    assert answer_of(result) == case.expected(3_001)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_answer_does_not_depend_on_the_number_of_shards(shards: int) -> None:
    (case,) = find(["sum_sliding"])
    door, result = run(lambda p: case.build(p, 1_000), shards)
    assert answer_of(result) == case.expected(1_000)
    assert {task.shard for task in door.tasks} == set(range(shards))


def test_the_rows_that_one_superstep_makes_are_those_that_the_next_one_takes() -> None:
    (case,) = find(["group_int"])
    door, result = run(lambda p: case.build(p, 500))
    for superstep in range(1, len(result.plan.supersteps)):
        made = sum(t.rows_out for t in door.tasks if t.superstep == superstep - 1)
        assert sum(t.rows_in for t in door.tasks if t.superstep == superstep) == made > 0


def test_a_failed_assertion_inside_the_pipeline_surfaces() -> None:
    def build(p: Any) -> None:
        assert_that(p | beam.Create([1]), equal_to([2]))

    with pytest.raises(Exception, match="Failed assert"):
        run(build)


def test_a_profile_holds_the_calls_of_the_pipelines_own_functions() -> None:
    profiler = cProfile.Profile()
    (case,) = find(["group_int"])
    _, answer = run_case(case, 500, 2, profiler)
    assert answer == case.expected(500)
    profiles = pstats.Stats(profiler).get_stats_profile().func_profiles
    assert profiles["check"].ncalls == "500"  # 500 numbers on 10000 keys: a group each
