"""One crash for each gap between the steps of the commit; the answer is as if there had been none.

All crashes happen to one run, one start after the other, because a start of Spark costs seconds.
After each it is looked up in the files that the crash hit the gap it was meant for; at the end the
rows are compared with those worked out from the input.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.lab.experiments.faults.data import InputSpec, write_input
from headrace.lab.experiments.faults.oracle import differences, right_answer
from headrace.lab.experiments.faults.phases import Phase, phases_of, status
from headrace.lab.experiments.faults.processes import Driver, Home
from headrace.lab.experiments.faults.reading import written
from headrace.state.crash_points import Point, asked_for, crash_point

SECONDS = 240.0
#: A dozen starts of Spark: `make chaos` asks for them. The short form, which runs always, is
#: tests/streaming/test_crash_gaps.py.
slow = pytest.mark.skipif(
    "HEADRACE_SLOW" not in os.environ, reason="takes minutes; set HEADRACE_SLOW=1, or make chaos"
)
INPUT_SPEC = InputSpec(elements=4_000, files=9, rate_files=4, seed=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A start of the driver that ends in a crash."""

    gap: str
    crash: str  # as in HEADRACE_CRASH
    epoch: int | None  # that is next to be committed when the crash is over; None: any
    phase: Phase
    shards: int = 2
    wipe: bool = False


# In the order of the epochs. A lost task alone does not end the driver: `worker_lost` does, so that
# it does not run the epoch again by itself. Superstep 1 is sealed before superstep 2 runs. After a
# crash Spark may put two files into one batch, so the last epochs have no fixed numbers.
CASES = (
    Case(gap="first epoch: between two sinks", crash="between_sinks:0", epoch=0,
         phase=Phase.BETWEEN),
    Case(gap="offsets logged, no task begun", crash="before_tasks:2", epoch=2,
         phase=Phase.OFFSETS),
    Case(gap="no task has sealed", crash="before_seal:3,worker_lost:3", epoch=3,
         phase=Phase.OFFSETS, wipe=True),
    Case(gap="some tasks have sealed", crash="before_seal:4:2-1,worker_lost:4", epoch=4,
         phase=Phase.SEALING, shards=3),
    Case(gap="all tasks reported, no sink", crash="before_sinks:6", epoch=6,
         phase=Phase.SEALING),
    Case(gap="sinks, no manifest", crash="after_sinks:8", epoch=8,
         phase=Phase.SINKS, wipe=True),
    Case(gap="manifest, not logged by Spark", crash="after_manifest:9", epoch=10,
         phase=Phase.COMMITTED),
    Case(gap="all logged by Spark", crash="after_return:*", epoch=None,
         phase=Phase.BETWEEN),
    Case(gap="drained: sinks, no manifest", crash="after_sinks:*", epoch=None,
         phase=Phase.SINKS, shards=1),
    Case(gap="drained: manifest", crash="after_manifest:*", epoch=None,
         phase=Phase.BETWEEN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a crash left."""

    ended: int
    epoch: int
    phases: tuple[Phase, ...]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("crashes")
    write_input(folder / "input", INPUT_SPEC)
    made = Home(source=folder / "input", folder=folder / "run")
    made.folder.mkdir()
    return made


@pytest.fixture(scope="module")
def crashes(home: Home) -> dict[str, Seen]:
    """Crash in every gap, then run to the end."""
    found = {}
    for case in CASES:
        before = status(home.checkpoint).incarnation
        driver = Driver(home, shards=case.shards, crash=case.crash)
        ended = driver.wait(SECONDS)
        phases = phases_of(
            home.checkpoint, home.output, claimed_before=before, since=driver.started
        )
        found[case.gap] = Seen(
            ended=ended, epoch=status(home.checkpoint).epoch + 1, phases=phases
        )
        if ended != -signal.SIGKILL:
            break  # all that follows would be as wrong
        if case.wipe:
            shutil.rmtree(home.state)
    return found


def log(home: Home) -> str:
    return home.log.read_text(errors="replace")[-4000:]


@slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.gap.replace(" ", "_"))
def test_a_crash_hits_the_gap_it_is_meant_for(
    crashes: dict[str, Seen], home: Home, case: Case
) -> None:
    seen = crashes[case.gap]
    epoch = seen.epoch if case.epoch is None else case.epoch
    assert (seen.ended, seen.epoch) == (-signal.SIGKILL, epoch), log(home)
    phases = set(seen.phases)
    point = f"HEADRACE_CRASH: {case.crash.replace(':', ' ')} "
    if phases == {Phase.SEALING} and point in home.log.read_text(errors="replace"):
        # The sinks had their turn, and an epoch of timers alone had no rows for them.
        phases.add(Phase.SINKS)
    assert case.phase in phases, log(home)


@slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_after_a_crash_in_every_gap_the_rows_are_exactly_the_right_ones(
    crashes: dict[str, Seen], home: Home
) -> None:
    assert len(crashes) == len(CASES)
    last = [crashes[case.gap].epoch for case in CASES[-3:]]
    assert [epoch - last[0] for epoch in last] == [0, 0, 1]  # only draining was left
    assert Driver(home, shards=2).wait(SECONDS) == 0, log(home)
    wanted = right_answer(home.source)
    assert all(wanted.values())
    assert differences(written(home.output), wanted) == []


@slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_epoch_whose_worker_was_killed_is_run_again_by_the_driver(
    tmp_path: Path, home: Home
) -> None:
    """Epoch n is the try n + 1 of incarnation 1 until one is lost; the second try has its own."""
    alone = Home(source=home.source, folder=tmp_path)
    driver = Driver(alone, shards=2, crash="before_seal:1.4:2-1,after_seal:1.8:1-0")
    assert driver.wait(SECONDS) == 0, log(alone)
    said = alone.log.read_text(errors="replace")
    assert "epoch 3 failed and is run again" in said
    assert "epoch 6 failed and is run again" in said  # its try is 7 + 1
    assert differences(written(alone.output), right_answer(home.source)) == []


def test_a_crash_is_asked_for_by_point_epoch_or_attempt_and_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append(number))
    crash_point(Point.AFTER_SEAL, 7, "1.8", "2-1")
    assert killed == []  # nothing is asked for
    monkeypatch.setattr(
        "headrace.state.crash_points._CRASHES", asked_for("after_seal:7:2-1,before_sinks:1.9")
    )
    crash_point(Point.AFTER_SEAL, 7, "1.8", "2-0")
    crash_point(Point.AFTER_SEAL, 8, "1.9", "2-1")
    crash_point(Point.BEFORE_SEAL, 7, "1.8", "2-1")
    crash_point(Point.BEFORE_SINKS, 7, "1.8")
    assert killed == []
    crash_point(Point.AFTER_SEAL, 7, "3.1", "2-1")
    crash_point(Point.BEFORE_SINKS, 7, "1.9")
    assert killed == [signal.SIGKILL, signal.SIGKILL]


@pytest.mark.parametrize("text", ["after_lunch:7", "after_seal", "after_seal:", "7:after_seal"])
def test_a_crash_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not point:when"):
        asked_for(text)
