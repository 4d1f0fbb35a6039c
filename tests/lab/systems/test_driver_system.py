"""Drivers that are killed in mid-run and started again, and disks that are slow for a while."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from headrace.errors import OptionError
from headrace.lab import slow_disk
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.recovery import Recovery, measure_fault
from headrace.lab.record.trial import Fault, Load, Trial
from headrace.lab.slow_disk import felt, slow_files
from headrace.lab.systems.driver_system import DriverSystem
from headrace.lab.systems.harm import Harm, SlowDisk
from headrace.lab.systems.live import LiveBench, LiveSettings

SLOW = "HEADRACE_SLOW" in os.environ
TOYS = "tests.lab.driver_toys:make"
KILL = Fault(kind="kill-driver", at_seconds=2)


def bench(how: str) -> LiveBench:
    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
    return LiveBench("counting", settings, DriverSystem(how, "local[1]", maker=TOYS))


def hurt(how: str, fault: Fault | None = KILL) -> Trial:
    one = bench(how)
    try:
        return one.trial(Load(schedule=Schedule.steady(2_000, 6), fault=fault))
    finally:
        one.stop()


def test_a_driver_that_is_killed_goes_on_with_its_checkpoint_and_every_row_comes_once() -> None:
    found: Recovery = measure_fault(bench("careful"), rate=2_000, seconds=8, fault=KILL)
    assert not found.void
    assert found.trial.verdict.rows >= 7 * 4 * 4
    # Rows left before the kill, and after another process was there, not in between.
    left = found.trial.left
    assert left.min() < KILL.at_seconds < left.max()
    gap = max(b - a for a, b in zip(sorted(left), sorted(left)[1:], strict=False))
    assert found.recovery_seconds is not None
    assert 0.3 < gap <= found.recovery_seconds + 0.5 < 6


@pytest.mark.parametrize(("how", "said"), [
    ("forgetful", "wrong answer: "),
    ("failing", "the system failed: TransportError: failing ended with 1: RuntimeError: the check"),
])
def test_a_driver_that_goes_on_wrongly_or_not_at_all_is_caught(how: str, said: str) -> None:
    assert hurt(how).trouble.startswith(said)


def test_a_driver_that_nobody_kills_is_right_whatever_it_would_do() -> None:
    assert hurt("forgetful", None).trouble == ""


def test_a_kill_after_the_end_voids_the_trial() -> None:
    late = hurt("careful", Fault(kind="kill-driver", at_seconds=60))
    assert late.trouble == "the fault kill-driver was not made: there was no driver at its time"


def test_nothing_of_a_killed_driver_stays_behind() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    hurt("careful")
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


@pytest.mark.parametrize(("name", "kind", "said"), [
    ("direct", "kill-driver", "direct cannot be given the fault kill-driver: it keeps its state"),
    ("pyflink", "kill-driver", "pyflink cannot be given .* is not started again on its checkpoint"),
    ("spark", "slow-disk", "spark cannot be given the fault slow-disk: its JVM writes"),
])
def test_what_a_system_cannot_be_given_is_refused_with_the_reason(
    name: str, kind: str, said: str
) -> None:
    load = Load(schedule=Schedule.steady(10, 1), fault=Fault(kind=kind, at_seconds=1))
    with pytest.raises(OptionError, match=said):
        LiveBench(name, LiveSettings()).trial(load)


def test_a_disk_is_slow_while_the_fault_lasts_and_not_before_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "slow"
    files = slow_files(str(tmp_path / "checkpoint"), 1.0, str(marker))
    waited: list[float] = []
    monkeypatch.setattr(slow_disk, "time", SimpleNamespace(sleep=waited.append))

    def seconds() -> float:
        """How long 20 files wait; how long the disk itself takes is the machine's affair."""
        waited.clear()
        for number in range(20):
            files.write(f"file{number}", b"x")
        return sum(waited)

    act, begun = SlowDisk(marker), time.time()
    assert seconds() == 0
    assert "nothing was written" in act.void()
    fault = Fault(kind="slow-disk", at_seconds=0.0, lasts_seconds=60)
    with Harm(fault, act, lambda: begun) as harm:
        while not marker.exists():
            time.sleep(0.01)
        assert seconds() > 2  # 40 pauses of a quarter of a second on average
        assert felt(marker).exists()
    assert not harm.void
    assert not marker.exists()
    assert seconds() == 0


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"] if SLOW else ["headrace"])
def test_headrace_and_spark_survive_the_kill_of_their_driver(name: str) -> None:
    settings = LiveSettings(keys=4, window_ms=500, warm_seconds=3)
    fault = Fault(kind="kill-driver", at_seconds=3)
    trial = LiveBench(name, settings).trial(
        Load(schedule=Schedule.steady(1_000, 25), fault=fault)
    )
    assert not trial.trouble
    assert float(trial.left.min()) < fault.at_seconds < float(trial.left.max())


@pytest.mark.spark
@pytest.mark.skipif(not SLOW, reason="a whole session more")
def test_headrace_answers_right_on_a_disk_that_is_slow_for_a_while() -> None:
    settings = LiveSettings(keys=4, window_ms=500, warm_seconds=3)
    fault = Fault(kind="slow-disk", at_seconds=2, lasts_seconds=4)
    trial = LiveBench("headrace", settings).trial(
        Load(schedule=Schedule.steady(1_000, 12), fault=fault)
    )
    assert not trial.trouble
