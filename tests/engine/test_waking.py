"""Workers that start before the first task asks for them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.spark import waking
from headrace.engine.spark.session import SparkTarget
from headrace.engine.spark.waking import wake_workers


class Rows:
    """A frame of which every task is run at once, here."""

    def __init__(self, count: int, ran: list[Any]) -> None:
        self._count, self._ran = count, ran

    def mapInArrow(self, function: Any, columns: Any) -> Rows:
        del columns
        self._ran += [list(function([number])) for number in range(self._count)]
        return self

    def collect(self) -> None:
        pass


def target(name: str, *, is_local: bool = True) -> SparkTarget:
    door = SimpleNamespace(is_local=is_local, parallelism=3, name_jobs=lambda *_: None)
    session = SimpleNamespace(sparkContext=SimpleNamespace(applicationId=name))
    return SparkTarget(session=session, parent=session, door=cast("Any", door))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the tasks gave."""
    found: list[Any] = []
    monkeypatch.setattr(waking, "numbers", lambda _, count: Rows(count, found))
    return found


def test_as_many_tasks_as_run_side_by_side_wake_the_workers_once_for_each_context(
    ran: list[Any],
) -> None:
    for name in ("one", "one", "two"):
        thread = wake_workers(target(f"test-waking-{name}"))
        if thread is not None:
            thread.join()
    assert ran == [[0], [1], [2]] * 2
    assert "headrace.worker.entry" in sys.modules


def test_workers_of_a_cluster_are_left_alone(ran: list[Any]) -> None:
    assert wake_workers(target("test-waking-far", is_local=False)) is None
    assert ran == []


def test_a_session_that_is_stopped_meanwhile_is_nobodys_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: Any) -> Any:
        message = "the session was stopped"
        raise RuntimeError(message)

    monkeypatch.setattr(waking, "numbers", stopped)
    failed: list[Any] = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    thread = wake_workers(target("test-waking-stopped"))
    assert thread is not None
    thread.join()
    assert failed == []
