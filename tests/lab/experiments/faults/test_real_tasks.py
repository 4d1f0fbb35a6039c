"""Simulated faults while headrace's own tasks run: the same promises, and all parts take part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.engine.layouts import Layout
from headrace.io.kafka.publish import Position
from headrace.lab.experiments.faults.simulation import real_pipeline
from headrace.lab.experiments.faults.simulation.real_pipeline import right_answer
from headrace.lab.experiments.faults.simulation.schedule import (
    Fault,
    Planned,
    Schedule,
    Tasks,
    drawn,
)
from headrace.lab.experiments.faults.simulation.simulate import Asked, judged, simulate
from headrace.lab.experiments.kafka.memory_broker import MemoryProducer
from headrace.state import lmdb_store, snapshot
from headrace.state.crash_points import Point, Publication
from headrace.testing.host import LocalHost
from headrace.worker.sideinputs.pending_graph import PendingGraph
from tests.lab.experiments.faults.test_simulation import found_out

pytestmark = [pytest.mark.timeout(300)]

REAL = Tasks.REAL.value


def unharmed(seed: int) -> Schedule:
    return Schedule(seed=seed, batches=3, faults=(), tasks=REAL)


def test_faults_at_every_kind_of_gap_lose_and_double_nothing() -> None:
    tally = simulate(Asked(faults=80, seed=1, real=1.0))
    assert tally.failures == []
    assert tally.overtaken > 2
    passed = tally.kinds[REAL].passed
    points = {f"point {point.value}" for point in (*Point, *Publication)}
    verbs = {f"broker {verb}" for verb in ("connect", "position", "stage", "commit")}
    files = {f"create {kind}" for kind in ("manifests", "incarnations", "offsets", "commits")}
    sinks = {f"sink {verb}" for verb in ("make folder", "write", "move", "remove")}
    assert points | verbs | files | sinks | {"write state", "table"} <= passed
    happened = Counter(fault for _, fault in tally.happened.elements())
    assert set(happened) == {fault.value for fault in Fault}


def test_the_same_schedule_gives_the_same_run() -> None:
    for seed in (3, 11):
        schedule = drawn(seed, Tasks.REAL)
        first, second = judged(schedule), judged(schedule)
        assert (first.happened, first.gaps, first.drivers) == (
            second.happened, second.gaps, second.drivers
        )


def test_what_real_tasks_have_comes_up_in_a_few_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers of shards that change, both shapes, both stores, elements that wait for a side."""
    seen: Counter[str] = Counter()

    def spy(owner: Any, name: str, what: Any) -> None:
        known = getattr(owner, name)

        def look(*args: Any, **more: Any) -> Any:
            seen[what(*args, **more)] += 1
            return known(*args, **more)

        monkeypatch.setattr(owner, name, look)

    spy(lmdb_store, "redistribute", lambda *_: "redistributed")
    spy(lmdb_store, "current", lambda *_: "lmdb")
    spy(PendingGraph, "_keep", lambda *_, **__: "waits")
    spy(
        LocalHost, "run_epoch",
        lambda *_, layout=Layout.STAGES, **__: f"layout {layout.value}",
    )
    for seed in range(12):
        assert judged(unharmed(seed)).problem == ""
    assert {"redistributed", "lmdb", "waits", "layout stages", "layout one task"} <= set(seen)


def test_a_worker_that_is_killed_is_replaced_within_the_driver() -> None:
    """One driver reads what is there, one drains; a third would mean that one of them had ended."""
    kills = tuple(Planned(0, gap, Fault.WORKER_KILLED.value) for gap in (40, 90))
    found = judged(Schedule(seed=5, batches=2, faults=kills, tasks=REAL))
    assert (found.problem, found.drivers) == ("", 2)
    assert found.happened.total() == 2
    assert "point worker_lost" in found.passed


def test_a_broker_that_lets_older_producers_go_on_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryProducer, "_check", lambda _: None)
    schedule, problem = found_out(first=51, tasks=Tasks.REAL)
    assert problem.startswith("kafka: ")
    assert len(schedule.faults) <= 3


def test_a_publication_that_does_not_ask_for_the_marker_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It begins with what the outbox has, whatever the broker has of it already."""
    monkeypatch.setattr(MemoryProducer, "position", lambda _: Position(0, 0))
    problems = (judged(drawn(seed, Tasks.REAL)).problem for seed in range(1, 50))
    assert next(filter(None, problems)).startswith("kafka: ")


def test_rows_that_are_left_behind_when_shards_are_dealt_out_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dealt = snapshot.redistribute

    def but_one(*args: Any) -> Iterator[Any]:
        rows = iter(dealt(*args))
        next(rows, None)
        return rows

    monkeypatch.setattr(lmdb_store, "redistribute", but_one)
    assert any(judged(unharmed(seed)).problem for seed in range(12))


def test_the_oracle_is_right_for_one_batch() -> None:
    """Worked out by hand: levels 0 to 3 at 0, 3, 6 and 9 s, rates at 0, 5 and 10 s."""
    schedule = Schedule(seed=0, batches=1, faults=(), tasks=REAL)
    assert real_pipeline.readings_of(schedule) == [
        [("b", 1, 3), ("a", 0, 0), ("b", 3, 9), ("b", 2, 6)]
    ]
    assert real_pipeline.rates_of(schedule) == [[(1, 0), (14, 5), (27, 10)]]
    assert right_answer(schedule) == sorted([
        ("seen", "b", 1, 1), ("seen", "a", 0, 1), ("seen", "b", 3, 2), ("seen", "b", 2, 3),
        ("rated", "b", 1, 15), ("rated", "a", 0, 15), ("rated", "b", 3, 15), ("rated", "b", 2, 15),
        ("sum", "a", 0, 0), ("sum", "b", 0, 6), ("timed", "a", 0, 1), ("timed", "b", 0, 3),
    ])  # fmt: skip
