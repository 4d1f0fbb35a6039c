"""Progress counts this run's tasks only, and never outlives the run."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine import progress
from headrace.engine.progress import tasks_done, watching

PLAN: Any = SimpleNamespace(name="demo", shards=4, supersteps=(1, 2, 3))


class Tracker:
    """Spark's status tracker over made-up jobs: job -> finished tasks of each stage."""

    def __init__(self, jobs: dict[str, dict[int, list[int | None]]]) -> None:
        self._jobs = jobs

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802 (Spark's name)
        return list(self._jobs.get(group, {}))

    def getJobInfo(self, job_id: int) -> Any:  # noqa: N802 (Spark's name)
        for jobs in self._jobs.values():
            if job_id in jobs:
                stages = range(job_id * 100, job_id * 100 + len(jobs[job_id]))
                return SimpleNamespace(stageIds=list(stages))
        return None

    def getStageInfo(self, stage_id: int) -> Any:  # noqa: N802 (Spark's name)
        job_id, place = divmod(stage_id, 100)
        done = next(jobs[job_id] for jobs in self._jobs.values() if job_id in jobs)[place]
        return None if done is None else SimpleNamespace(numCompletedTasks=done)


def place(jobs: dict[str, dict[int, list[int | None]]]) -> Any:
    context = SimpleNamespace(statusTracker=lambda: Tracker(jobs))
    return SimpleNamespace(parent=SimpleNamespace(sparkContext=context))


def test_tasks_of_all_stages_of_the_group_are_counted_and_no_others() -> None:
    here = place({"mine": {1: [4, 2]}, "other": {2: [9]}})
    assert tasks_done(here, "mine", PLAN) == (6, 12)


def test_a_stage_that_spark_has_forgotten_counts_nothing() -> None:
    assert tasks_done(place({"mine": {1: [4, None]}}), "mine", PLAN) == (4, 12)


def test_tasks_that_were_run_twice_do_not_exceed_the_whole() -> None:
    assert tasks_done(place({"mine": {1: [40]}}), "mine", PLAN) == (12, 12)


@pytest.mark.parametrize("style", ["off", "plain", "rich", "auto"])
def test_a_short_run_shows_nothing_and_leaves_no_thread(
    style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.monotonic()
    with watching(place({}), "mine", PLAN, style):
        watchers = [t for t in threading.enumerate() if t.name == "headrace-progress"]
        assert len(watchers) == (0 if style == "off" else 1)
    assert [t for t in threading.enumerate() if t.name == "headrace-progress"] == []
    assert time.monotonic() - start < progress.QUIET_SECONDS
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("style", ["plain", "rich"])
def test_a_longer_run_says_its_name_and_how_many_tasks_are_done(
    style: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    with watching(place({"mine": {1: [4, 3]}}), "mine", PLAN, style):
        time.sleep(0.3)
    shown = capsys.readouterr().err
    assert "demo" in shown
    assert "7/12" in shown


def test_a_failing_run_ends_its_watcher() -> None:
    message = "boom"
    with pytest.raises(ValueError, match="boom"), watching(place({}), "g", PLAN, "plain"):
        raise ValueError(message)
    assert [t for t in threading.enumerate() if t.name == "headrace-progress"] == []
