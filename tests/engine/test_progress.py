"""Progress counts what is this run's alone, and guesses the rest no sooner than it can."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.listening import TaskCount
from headrace.engine.progress import looking, rest_seconds, tasks_done, view
from headrace.engine.spark.classic_door import ClassicDoor

PLAN: Any = SimpleNamespace(name="demo", shards=4, supersteps=(1, 2, 3))


class Tracker:
    """Spark's status tracker over made-up jobs: job -> finished tasks of each stage."""

    def __init__(self, jobs: dict[str, dict[int, list[int | None]]]) -> None:
        self._jobs = jobs

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return list(self._jobs.get(group, {}))

    def getJobInfo(self, job_id: int) -> Any:
        for jobs in self._jobs.values():
            if job_id in jobs:
                stages = range(job_id * 100, job_id * 100 + len(jobs[job_id]))
                return SimpleNamespace(stageIds=list(stages))
        return None

    def getStageInfo(self, stage_id: int) -> Any:
        job_id, place = divmod(stage_id, 100)
        done = next(jobs[job_id] for jobs in self._jobs.values() if job_id in jobs)[place]
        return None if done is None else SimpleNamespace(numCompletedTasks=done)


def place(jobs: dict[str, dict[int, list[int | None]]]) -> Any:
    context = SimpleNamespace(statusTracker=lambda: Tracker(jobs))
    return SimpleNamespace(door=ClassicDoor(SimpleNamespace(sparkContext=context)))


def test_tasks_of_all_stages_of_the_group_are_counted_and_no_others() -> None:
    here = place({"mine": {1: [4, 2]}, "other": {2: [9]}})
    assert tasks_done(here, "mine", PLAN) == (6, 12)


def test_a_stage_that_spark_has_forgotten_counts_nothing() -> None:
    assert tasks_done(place({"mine": {1: [4, None]}}), "mine", PLAN) == (4, 12)


def test_tasks_that_were_run_twice_do_not_exceed_the_whole() -> None:
    assert tasks_done(place({"mine": {1: [40]}}), "mine", PLAN) == (12, 12)


def test_before_the_first_task_the_workers_are_starting() -> None:
    found = looking(place({}), "mine", PLAN)(7.0)
    assert found.parts == ("starting workers", "7 s")
    assert found.rows == ()


def counts(*pairs: tuple[int, int, bool]) -> dict[tuple[int, int], TaskCount]:
    """Tasks of superstep 0, then 1, on the two shards of SMALL."""
    return {
        divmod(n, 2): TaskCount(taken=taken, given=given, done=done)
        for n, (taken, given, done) in enumerate(pairs)
    }


SMALL: Any = SimpleNamespace(
    name="demo", shards=2,
    supersteps=tuple(
        SimpleNamespace(stages=(SimpleNamespace(operators=operators),))
        for operators in (("Read/Split", "Read/Map"), ("Sum/Merge", "Write/Open"))
    ),
)


def test_a_batch_says_its_tasks_elements_rate_and_rest() -> None:
    told = counts((0, 600, True), (0, 400, True), (250, 0, False))
    found = view(SMALL, 2, 4, told, {"0": 0.0, "1": 50.0}, 20.0, 12.0)
    assert found.parts == ("2/4 tasks", "1250 elements", "50/s", "20 s", "about 12 s left")
    read, rest = found.rows
    assert read == ("Read", "", "1000", "", "2/2")
    assert rest == ("Sum, Write", "250", "0", "50/s", "0/2")


def test_the_rest_is_estimated_from_what_the_tasks_have_taken() -> None:
    """Two of four tasks are done, a third has taken half of its 500: 5/8 in 10 s leave 6 s."""
    told = counts((0, 600, True), (0, 400, True), (250, 0, False))
    assert rest_seconds(SMALL, 2, 4, told, 10.0) == pytest.approx(6.0)


def test_the_rest_is_not_guessed_at_the_beginning() -> None:
    assert rest_seconds(SMALL, 0, 4, {}, 10.0) is None
    assert rest_seconds(SMALL, 2, 4, {}, 1.0) is None
    assert rest_seconds(SMALL, 2, 4, {}, 10.0) == pytest.approx(10.0)
