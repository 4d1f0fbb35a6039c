"""Simulated faults: nothing is lost or doubled, and a protocol that is broken is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from unittest import mock

import pytest

from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.outputs import Outputs
from headrace.io.places import EpochFolders
from headrace.lab.experiments.faults.simulation.command import from_json, main
from headrace.lab.experiments.faults.simulation.folders import MemoryFolders
from headrace.lab.experiments.faults.simulation.pipeline import right_answer
from headrace.lab.experiments.faults.simulation.schedule import (
    Fault,
    Planned,
    Schedule,
    Tasks,
    drawn,
    shrunk,
    tasks_of,
)
from headrace.lab.experiments.faults.simulation.simulate import Asked, judged, simulate
from headrace.lab.experiments.faults.simulation.world import World

#: Schedules that are tried before a broken protocol counts as one that is not found out.
MOST_SCHEDULES = 400


def found_out(
    prepare: Callable[[World], None] = lambda _: None, *, first: int = 1,
    tasks: Tasks = Tasks.COUNTING,
) -> tuple[Schedule, str]:
    """The first schedule that fails, made small; fails if none does.

    `first` is where the search begins: a seed that is known to find it saves the time before.
    """
    for seed in range(first, first + MOST_SCHEDULES):
        schedule = drawn(seed, tasks)
        if judged(schedule, prepare=prepare).problem:
            small = shrunk(schedule, lambda one: bool(judged(one, prepare=prepare).problem))
            return small, judged(small, prepare=prepare).problem
    pytest.fail(f"nothing was found out by {MOST_SCHEDULES} schedules")


def test_hundreds_of_faults_at_every_kind_of_gap_lose_and_double_nothing() -> None:
    tally = simulate(Asked(faults=400, seed=1))
    assert tally.failures == []
    assert tally.overtaken > 10  # sleepers went on beside newer drivers, and were refused
    assert {fault for _, fault in tally.happened} == {
        fault.value for fault in Fault if fault is not Fault.WORKER_KILLED
    }
    gaps = {gap for gap, _ in tally.happened}
    assert {
        "create manifests", "create incarnations", "write state", "create offsets",
        "create commits", "sink move", "sink write", "sink remove", "sink make folder", "table",
        "point before_tasks", "point before_seal", "point after_seal", "point before_sinks",
        "point between_sinks", "point after_sinks", "point after_manifest",
    } <= gaps  # fmt: skip


def test_the_same_schedule_gives_the_same_run() -> None:
    schedule = drawn(7)
    first, second = judged(schedule), judged(schedule)
    assert (first.happened, first.gaps, first.drivers) == (
        second.happened, second.gaps, second.drivers
    )


def test_a_table_that_takes_rows_from_any_driver_is_found_out() -> None:
    def prepare(world: World) -> None:
        world.fences_table = False

    schedule, problem = found_out(prepare, first=38)
    assert problem.startswith("table: ")
    assert any(fault.kind in (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER) for fault in schedule.faults)
    assert len(schedule.faults) <= 3


def test_a_sink_of_files_without_its_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the note is asked, nor are the files of older drivers taken away."""
    monkeypatch.setattr(EpochFolders, "_check", lambda *_: None)
    claim = EpochFolders.claim

    def and_leave_files(self: Any, session: Any, *args: Any, **more: Any) -> None:
        self._storage = self._storage or session.storage()
        with mock.patch.object(self._storage, "remove", lambda _: None):
            claim(self, session, *args, **more)

    monkeypatch.setattr(EpochFolders, "claim", and_leave_files)
    _, problem = found_out()
    assert problem.startswith("files: ")


def test_a_manifest_written_before_the_sinks_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if steps 3 and 4 of the commit had been exchanged."""
    waiting: list[Callable[[], None]] = []
    deliver, commit = Outputs.deliver_epoch, Checkpoint.commit

    def later(self: Outputs, *args: Any) -> None:
        waiting[:] = [lambda: deliver(self, *args)]

    def and_deliver(self: Checkpoint, *args: Any) -> None:
        mine = list(waiting)
        commit(self, *args)
        for one in mine:
            one()

    monkeypatch.setattr(Outputs, "deliver_epoch", later)
    monkeypatch.setattr(Checkpoint, "commit", and_deliver)
    schedule, problem = found_out()
    assert "lost" in problem
    assert len(schedule.faults) <= 2


def test_an_epoch_that_is_not_given_away_to_a_sleeping_driver_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a lock, a newer driver must take the epoch that an older one may be committing."""
    monkeypatch.setattr(Checkpoint, "shut_out", lambda *_: [])
    monkeypatch.setattr(Checkpoint, "check_newest", lambda _: None)
    found_out(first=171)


def test_a_failing_schedule_is_made_as_small_as_it_can_be() -> None:
    wanted = Planned(2, 5, Fault.KILL_AFTER.value)
    faults = tuple(sorted({*drawn(3).faults, wanted}))

    def fails(schedule: Schedule) -> bool:
        return wanted in schedule.faults and schedule.batches > 1

    small = shrunk(Schedule(seed=3, batches=5, faults=faults), fails)
    assert small == Schedule(seed=3, batches=2, faults=(wanted,))


def test_the_command_runs_a_schedule_again_and_tells_what_it_saved(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "simulation.json"
    assert main(["--faults", "20", "--seed", "3", "--save", str(saved)]) == 0
    told = json.loads(saved.read_text())
    assert told["faults"] >= 20 and told["failures"] == []
    assert sum(n for kinds in told["faults_by_gap"].values() for n in kinds.values()) == (
        told["faults"]
    )
    assert told["real_share"] == 0.05
    text = json.dumps(asdict(drawn(5)))
    assert from_json(text) == drawn(5)
    assert from_json(json.dumps(asdict(drawn(5, Tasks.REAL)))) == drawn(5, Tasks.REAL)
    assert main(["--schedule", text]) == 0
    assert capsys.readouterr().out.endswith("right\n")


def test_the_share_of_schedules_with_real_tasks_is_spread_evenly() -> None:
    for first in (1, 250, 100_001):
        kinds = [tasks_of(seed, 0.05) for seed in range(first, first + 100)]
        assert kinds.count(Tasks.REAL) == 5
    assert {tasks_of(seed, 0.0) for seed in range(100)} == {Tasks.COUNTING}
    assert {tasks_of(seed, 1.0) for seed in range(100)} == {Tasks.REAL}


def test_the_oracle_counts_each_key_from_one() -> None:
    rows = right_answer(Schedule(seed=0, batches=3, faults=()))
    assert len(rows) == 2 * 3 * 3
    for key in {row[0] for row in rows}:
        times = [row[2] for row in sorted(rows, key=lambda row: row[1]) if row[0] == key]
        assert times == list(range(1, len(times) + 1))


def test_folders_in_memory_are_moved_as_on_a_disk() -> None:
    folders = MemoryFolders()
    folders.make_folder("/a/b")
    folders.write("/a/b/file", b"x")
    with pytest.raises(FileNotFoundError):
        folders.move("/a/b", "/c/d")  # there is no /c
    folders.make_folder("/c")
    folders.move("/a/b", "/c/d")
    assert (folders.read("/c/d/file"), folders.exists("/a/b")) == (b"x", False)
    folders.make_folder("/a/b")
    with pytest.raises(FileExistsError):
        folders.move("/a/b", "/c/d")  # it is not empty
    folders.remove("/c")
    assert folders.names("/c") == [] and not folders.exists("/c/d/file")
