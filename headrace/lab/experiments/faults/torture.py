"""Runs the driver to its end, killing it on the way as the plan says.

Waits, kills, starts again; compares nothing. A driver that fails without having been killed, or
that makes no progress, ends the run.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.lab.experiments.faults.kills import Kill, Kind
from headrace.lab.experiments.faults.phases import Phase, phase_of, status
from headrace.lab.experiments.faults.processes import POLL_SECONDS, Driver, Home, Part

#: An epoch takes seconds; a driver that commits none for so long is stuck.
STUCK_SECONDS = 240.0
#: After a start it takes seconds until Spark has its first Python worker.
WORKER_SECONDS = 30.0

Say = Callable[[str], None]


class RunError(Exception):
    """A driver failed that nobody had killed."""


@dataclass(slots=True)
class KilledRun:
    """What became of a run."""

    seconds: float = 0.0
    epochs: int = 0
    starts: int = 0
    wiped: int = 0
    moved: int = 0  # starts with another number of shards
    kills: Counter[tuple[Kind, Phase]] = field(default_factory=Counter)


def run(home: Home, kills: Sequence[Kill], seed: int, say: Say) -> KilledRun:
    """Run to the end; give how it went."""
    home.folder.mkdir(parents=True, exist_ok=True)
    outcome, drawn = KilledRun(), random.Random(seed)
    begun = time.monotonic()
    shards = 2
    claimed = status(home.checkpoint).incarnation
    driver = _start(home, shards, outcome)
    try:
        for number, kill in enumerate(kills, 1):
            if not _until(driver, home, kill, claimed):
                break
            claimed_now = status(home.checkpoint).incarnation
            if kill.kind is Kind.WORKER:
                hit = _kill_worker(driver, drawn)
                phase = _phase(home, claimed, driver)
            else:
                hit = True
                (driver.kill_all if kill.kind is Kind.MACHINE else driver.kill_driver)()
                phase = _phase(home, claimed, driver)
            epoch = status(home.checkpoint).epoch + 1
            told = f"kill {number} of {len(kills)}: {kill.kind.value} in epoch {epoch}"
            if not hit:
                say(f"{told}: there was no worker")
                continue
            outcome.kills[kill.kind, phase] += 1
            if kill.kind is not Kind.WORKER:
                told += _restart_notes(home, kill, shards, outcome)
                shards = kill.shards
                claimed = max(claimed_now, status(home.checkpoint).incarnation)
                driver = _start(home, shards, outcome)
            say(f"{told} ({phase.value})")
        while _moving(driver, home):
            time.sleep(POLL_SECONDS)
        if driver.wait(STUCK_SECONDS) != 0:
            raise RunError(_failed(home, driver))
    finally:
        if driver.ended is None:
            driver.kill_all()
    outcome.seconds = time.monotonic() - begun
    outcome.epochs = status(home.checkpoint).epoch + 1
    return outcome


def _start(home: Home, shards: int, outcome: KilledRun) -> Driver:
    outcome.starts += 1
    return Driver(home, shards=shards)


def _restart_notes(home: Home, kill: Kill, shards: int, outcome: KilledRun) -> str:
    notes = ""
    if kill.wipe:
        shutil.rmtree(home.state, ignore_errors=True)
        outcome.wiped += 1
        notes += ", stores wiped"
    if kill.shards != shards:
        outcome.moved += 1
        notes += f", {shards} -> {kill.shards} shards"
    return notes


def _phase(home: Home, claimed: int, driver: Driver) -> Phase:
    return phase_of(home.checkpoint, home.output, claimed_before=claimed, since=driver.started)


def _kill_worker(driver: Driver, drawn: random.Random) -> bool:
    """Kill a worker, as soon as there is one; False if there was none for long."""
    deadline = time.monotonic() + WORKER_SECONDS
    while not driver.kill_part(Part.WORKER, drawn):
        if driver.ended is not None or time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _until(driver: Driver, home: Home, kill: Kill, claimed: int) -> bool:
    """Wait for the moment of a kill; False if the driver came to its end before."""
    while kill.epoch is not None and _moving(driver, home):
        found = status(home.checkpoint)
        if found.epoch >= kill.epoch and found.incarnation > claimed:
            break
        time.sleep(POLL_SECONDS)
    moment = time.monotonic() + kill.delay
    while driver.ended is None and time.monotonic() < moment:
        time.sleep(POLL_SECONDS)
    if driver.ended:
        raise RunError(_failed(home, driver))
    return driver.ended is None


def _moving(driver: Driver, home: Home) -> bool:
    """Whether the driver runs; an error if it failed or is stuck."""
    if driver.ended:
        raise RunError(_failed(home, driver))
    manifests = home.checkpoint / "manifests"
    last = max(driver.started, manifests.stat().st_mtime if manifests.exists() else 0)
    if driver.ended is None and time.time() - last > STUCK_SECONDS:
        driver.tell_stacks()
        msg = f"no epoch was committed for {STUCK_SECONDS:.0f} s; see {home.log}"
        raise RunError(msg)
    return driver.ended is None


def _failed(home: Home, driver: Driver) -> str:
    tail = home.log.read_text(errors="replace")[-3000:]
    return f"the driver ended with {driver.ended} and nobody had killed it:\n{tail}"
