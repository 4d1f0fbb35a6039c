"""Carries one round out: a run to its end, through all that its plan makes it suffer.

Starts drivers, waits for the moments of the faults, does them, starts again. Compares no rows. A
driver that ends in a way that no fault explains, or that makes no progress, ends the round.
"""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.lab.experiments.faults.disks import Disks
from headrace.lab.experiments.faults.faults import (
    ENDING,
    FULL,
    PEACE,
    START_SECONDS,
    Fault,
    Kind,
    Life,
    crash_text,
)
from headrace.lab.experiments.faults.inside import JUMP, SLOW, Inside, noted
from headrace.lab.experiments.faults.phases import Phase, Progress, phase_of, status
from headrace.lab.experiments.faults.processes import POLL_SECONDS, Driver, Home, Part
from headrace.lab.experiments.faults.variants import Variant

#: An epoch takes a second, and with much else to do many; who commits none for so long is stuck.
STUCK_SECONDS = 300.0
#: After its JVM died, or after it was taken over from, a driver must end within this time.
ENDING_SECONDS = 120.0
#: After a start it takes seconds until Spark has its first Python worker.
WORKER_SECONDS = 30.0
#: Room on a disk that is about to be full.
LEFT_BYTES = 150_000

_PARTS = {
    Kind.WORKER: Part.WORKER, Kind.DAEMON: Part.DAEMON,
    Kind.WORKER_STOPPED: Part.WORKER, Kind.JVM_STOPPED: Part.JVM, Kind.DRIVER_STOPPED: Part.DRIVER,
}
CRASHED = re.compile(r"HEADRACE_CRASH: (\w+) (\d+) (\S+) (\S+)")
#: How a driver says that there is another one; the second is Spark's way.
_OVERTAKEN = re.compile(r"CheckpointError|CONCURRENT_STREAM_LOG_UPDATE")
#: How a driver may end whose disk is full, besides saying so itself; the last is the way of SQLite,
#: which the function of a sink writes to.
_NO_ROOM = re.compile(
    r"No space left on device|Errno 28|make room on its disk|database or disk is full"
)


#: Set from outside, it ends all rounds of this process.
STOP = threading.Event()


class RoundError(Exception):
    """A driver ended, or did not end, in a way that no fault explains."""


class StoppedError(Exception):
    """Somebody has stopped the round: it says nothing."""


@dataclass(slots=True)
class Suffered:
    """What became of a round."""

    seconds: float = 0.0
    epochs: int = 0
    starts: int = 0
    wiped: int = 0
    hits: Counter[tuple[Kind, str]] = field(default_factory=Counter)  # by kind and phase or gap
    skipped: Counter[Kind] = field(default_factory=Counter)  # cannot be done on this machine


class Round:
    """One round; `run` carries it out."""

    def __init__(self, home: Home, variant: Variant, lives: Sequence[Life], seed: int) -> None:
        self._home, self._variant, self._lives = home, variant, tuple(lives)
        self._drawn = random.Random(seed)
        self.outcome = Suffered()
        self._epoch_seconds = 1.0
        self._before = Progress(-1, 0, ())  # when the driver that runs was started
        self._driver: Driver | None = None
        self._frozen: tuple[Driver, Fault] | None = None
        self._disks: Disks | None = None
        planned = {fault.kind for life in lives for fault in life.faults}
        self._full = bool(planned & set(FULL))
        # Two drivers share a checkpoint only where it cannot be locked: on other machines' storage.
        self._no_locks = Kind.TWO_DRIVERS in planned
        self._machine = 0  # each of the two has stores of its own

    def run(self) -> Suffered:
        """Go through all lives, and then to the end in peace."""
        begun = time.monotonic()
        home = self._home
        home.folder.mkdir(parents=True, exist_ok=True)
        if self._full:
            self._disks = Disks.make((home.checkpoint, home.state, home.output))
        failed = True
        try:
            for life in (*self._lives, PEACE):
                if self._live(life):
                    break
            failed = False
        finally:
            for driver in (self._driver, self._frozen and self._frozen[0]):
                if driver is not None and driver.ended is None:
                    driver.kill_all()
            self.outcome.seconds = time.monotonic() - begun
            self.outcome.epochs = status(home.checkpoint).epoch + 1
            told = Counter(noted(home.trace))
            for kind, note in ((Kind.SLOW, SLOW), (Kind.CLOCK, JUMP)):
                if told[note]:
                    self.outcome.hits[kind, "while it runs"] = told[note]
            if failed:
                self.close(keep=not STOP.is_set())
        return self.outcome

    def close(self, keep: bool) -> None:
        """Give mounted disks back; `keep`: what is on them stays."""
        if self._disks is not None:
            self._disks.close(keep)
            self._disks = None

    # -- one life

    def _live(self, life: Life) -> bool:
        """Start a driver and do to it what the life says; give whether it came to the end."""
        driver = self._start(life)
        if self._frozen is not None:
            self._bring_back(driver)
        last, excused = self._before.epoch, False
        for fault in life.faults:
            if not self._until(driver, fault, last):
                break
            last = status(self._home.checkpoint).epoch
            ended = self._do(driver, fault)
            excused = excused or fault.kind in FULL
            if ended is not None:
                self._count_crashes(driver)
                return ended
        while self._moving(driver):
            time.sleep(POLL_SECONDS)
        code = driver.wait(ENDING_SECONDS)
        crashed = self._count_crashes(driver)
        if code == 0 or crashed or (excused and _NO_ROOM.search(driver.said)):
            return code == 0
        raise RoundError(_ended_badly(driver))

    def _start(self, life: Life) -> Driver:
        home = self._home
        state = self._state()
        if life.wipe:
            _wipe(state)
            self.outcome.wiped += 1
        self._before = status(home.checkpoint)
        inside = Inside(
            trace=str(home.trace), slow_seconds=life.slow_seconds, jumps=life.jumps,
            no_locks=self._no_locks,
        )
        crash = crash_text(
            life.gaps, incarnation=self._before.incarnation + 1, epoch=self._before.epoch + 1
        )
        self.outcome.starts += 1
        self._driver = Driver(
            home, shards=life.shards, crash=crash, variant=self._variant.name, state=state,
            inside=inside.to_json(), log=home.folder / f"driver-{self.outcome.starts:02d}.log",
        )
        return self._driver

    def _state(self) -> Path:
        """Give the stores of the machine that the driver runs on."""
        return self._home.state / str(self._machine)

    def _bring_back(self, driver: Driver) -> None:
        """Let a driver that hangs go on once the second one is under way; it must give up."""
        assert self._frozen is not None
        old, fault = self._frozen
        target = self._before.epoch + round(fault.lasting)
        while self._moving(driver) and not self._is_at(target):
            time.sleep(POLL_SECONDS)
        time.sleep(self._drawn.uniform(0, 1.5) * self._epoch_seconds)
        old.thaw()
        code = old.wait(ENDING_SECONDS)
        self._frozen = None
        # One that hung after its last commit has nothing left to do.
        if code != 0 and not _OVERTAKEN.search(old.said):
            msg = f"a driver that was taken over from did not say so:\n{_ended_badly(old)}"
            raise RoundError(msg)

    # -- moments

    def _until(self, driver: Driver, fault: Fault, last: int) -> bool:
        """Wait for the moment of a fault; False if the driver came to its end before."""
        if fault.epochs is None:
            moment = time.monotonic() + fault.delay * START_SECONDS
        else:
            while self._moving(driver) and not self._is_at(last + fault.epochs):
                time.sleep(POLL_SECONDS)
            moment = time.monotonic() + fault.delay * self._epoch_seconds
        while driver.ended is None and time.monotonic() < moment:
            time.sleep(POLL_SECONDS)
        return driver.ended is None

    def _is_at(self, epoch: int) -> bool:
        found = status(self._home.checkpoint)
        return found.epoch >= epoch and found.incarnation > self._before.incarnation

    def _moving(self, driver: Driver) -> bool:
        """Whether the driver runs; an error if it is stuck."""
        if STOP.is_set():
            raise StoppedError
        if driver.ended is not None:
            return False
        times = _commit_times(self._home.checkpoint)
        recent = [time for time in times if time > driver.started][-4:]
        if len(recent) > 1:
            found = (recent[-1] - recent[0]) / (len(recent) - 1)
            self._epoch_seconds = min(3.0, max(0.2, found))
        if time.time() - max(driver.started, *times, 0.0) > STUCK_SECONDS:
            driver.tell_stacks()
            msg = f"no epoch was committed for {STUCK_SECONDS:.0f} s; see {driver.log}"
            raise RoundError(msg)
        return True

    def _phase(self, driver: Driver) -> Phase:
        return phase_of(
            self._home.checkpoint, self._home.output,
            claimed_before=self._before.incarnation, since=driver.started,
        )

    # -- faults

    def _do(self, driver: Driver, fault: Fault) -> bool | None:
        """Do one; None: the driver goes on, else whether it had come to its end."""
        phase = self._phase(driver)
        hit = True
        ended: bool | None = False if fault.kind in ENDING else None
        match fault.kind:
            case Kind.MACHINE:
                driver.kill_all()
            case Kind.DRIVER:
                driver.kill_driver()
            case Kind.JVM:
                code = driver.kill_jvm(ENDING_SECONDS)
                if code is None:
                    msg = (
                        f"the driver did not end within {ENDING_SECONDS:.0f} s of its JVM; "
                        f"see {driver.log}"
                    )
                    raise RoundError(msg)
                ended = code == 0
            case Kind.TWO_DRIVERS:
                driver.freeze()
                self._frozen = (driver, fault)
                self._machine += 1
            case Kind.WORKER | Kind.DAEMON:
                hit = self._kill(driver, _PARTS[fault.kind])
            case Kind.WORKER_STOPPED | Kind.JVM_STOPPED | Kind.DRIVER_STOPPED:
                seconds = max(0.5, fault.lasting * self._epoch_seconds)
                hit = driver.pause(_PARTS[fault.kind], seconds, self._drawn)
            case Kind.FULL_CHECKPOINT | Kind.FULL_STATE | Kind.FULL_SINK:
                hit = self._fill(driver, fault)
            case _:
                msg = f"{fault.kind} is not done from outside"
                raise ValueError(msg)
        if fault.kind in ENDING:
            phase = self._phase(driver)
        if hit:
            self.outcome.hits[fault.kind, phase.value] += 1
        return ended

    def _kill(self, driver: Driver, part: Part) -> bool:
        """Kill a part, as soon as there is one; False if there was none for long."""
        deadline = time.monotonic() + WORKER_SECONDS
        while not driver.kill_part(part, self._drawn):
            if driver.ended is not None or time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _fill(self, driver: Driver, fault: Fault) -> bool:
        """Fill a disk for a while; say whether that could be done."""
        if self._disks is None:
            self.outcome.skipped[fault.kind] += 1
            return False
        folder = {
            Kind.FULL_CHECKPOINT: self._home.checkpoint, Kind.FULL_STATE: self._home.state,
            Kind.FULL_SINK: self._home.output,
        }[fault.kind]
        if not self._disks.fill(folder, self._drawn.randrange(LEFT_BYTES)):
            return False
        moment = time.monotonic() + fault.lasting * self._epoch_seconds + 2.0
        while driver.ended is None and time.monotonic() < moment:
            time.sleep(POLL_SECONDS)
        self._disks.empty(folder)
        return True

    def _count_crashes(self, driver: Driver) -> bool:
        """Count the gaps in which processes ended; say whether the driver was one of them.

        Several tasks of one attempt may be in the same gap: that is one crash.
        """
        found = {(point, attempt, epoch) for point, epoch, attempt, _ in
                 CRASHED.findall(driver.said)}
        for point, *_ in found:
            self.outcome.hits[Kind.GAP, point] += 1
        return any(point not in ("before_seal", "after_seal") for point, *_ in found)


def _wipe(folder: Path) -> None:
    for path in folder.glob("*"):  # the folder itself may be a disk
        shutil.rmtree(path, ignore_errors=True)


def _commit_times(checkpoint: Path) -> list[float]:
    found = []
    for path in (checkpoint / "manifests").glob("[0-9]*"):
        try:
            found.append(path.stat().st_mtime)
        except FileNotFoundError:  # swept
            continue
    return sorted(found)


def _ended_badly(driver: Driver) -> str:
    return f"the driver ended with {driver.ended} and no fault explains it:\n{driver.said[-6000:]}"
