"""The world that simulated drivers share: files, a sink's folders, a table; and who acts in it.

One driver acts at a time, by one of its threads: it goes on until a fault lets it sleep or it ends.
Every operation on the world is a gap, counted per driver, at which its schedule may have a fault.
What a driver does on the side (a publication behind the next epoch) takes turns with the rest of
it, at gaps, by dice of its own. So a run depends on its schedule alone.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.io.storage import Storage
from headrace.lab.experiments.faults.simulation.folders import MemoryFolders
from headrace.lab.experiments.faults.simulation.schedule import DEADLY, Fault, Schedule
from headrace.state.crash_points import Point, Publication
from headrace.state.memory_files import MemoryFiles, forget

T = TypeVar("T")

#: A baton that is not handed on within this time is lost: the simulation itself hangs.
HUNG_SECONDS = 120.0
#: The threads in which tasks run; see `headrace.worker.entry`.
STAGES = "headrace-stages"
#: How often a driver's other thread has its turn, where it has one.
TURNS = 0.3


class Killed(BaseException):
    """The driver is dead; nothing it does from here on has any effect."""


class WorkerKilled(BaseException):
    """The worker is dead; its driver hears of it."""


class Driver:
    """One start of a driver, in threads of its own."""

    def __init__(self, world: World, number: int, work: Callable[[Driver], str]) -> None:
        self.number = number
        self.gaps = 0
        self.dead = False
        self.ended = ""  # how; empty: it has not
        self.doomed_worker = False  # is killed at the next gap of a task
        self.lost_worker = False  # and has not heard of it
        self.dice = random.Random(f"{world.schedule.seed} {number}")
        self._world = world
        self._work = work
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._begun = False
        self._aside: threading.Thread | None = None  # what it does on the side, until that ends
        self._turn, self._turn_aside = threading.Semaphore(0), threading.Semaphore(0)

    def go_on(self) -> None:
        """Let it act until it sleeps or ends; called by the world."""
        self._world.acting = self
        if not self._begun:
            self._begun = True
            self._thread.start()
        self._go.release()
        if not self._world.baton.acquire(timeout=HUNG_SECONDS):
            msg = f"driver {self.number} neither sleeps nor ends"
            raise RuntimeError(msg)

    def sleep(self) -> None:
        """Hand the baton back, and wait for it; called in the driver's thread."""
        self._world.baton.release()
        self._go.acquire()

    def do_aside(self, work: Callable[[], None]) -> None:
        """Begin something that takes turns with the rest, from the next gap on."""

        def turns() -> None:
            self._turn_aside.acquire()
            try:
                work()
            finally:
                self._aside = None
                self._turn.release()

        self._aside = threading.Thread(target=turns, daemon=True)
        self._aside.start()

    def join_aside(self) -> None:
        """Let what is done on the side come to its end."""
        while self._aside is not None:
            self.take_turns()

    def take_turns(self) -> None:
        """Let the driver's other thread go on, if there is one, until it gives back the turn."""
        if self._aside is None:
            return
        if threading.current_thread() is self._aside:
            self._turn.release()
            self._turn_aside.acquire()
        else:
            self._turn_aside.release()
            self._turn.acquire()

    def _live(self) -> None:
        self._go.acquire()
        try:
            self.ended = self._work(self)
        except Killed:
            self.ended = "killed"
        except BaseException as error:  # noqa: BLE001 (how a driver ends is what is looked at)
            self.ended = f"{type(error).__name__}: {error}"
        finally:
            self._world.baton.release()


class World:
    """Runs drivers by a schedule.

    Args:
        schedule: what goes wrong.
        work: a driver's life; gives how it ended.
        storage: where sinks write; in memory if not given.
    """

    def __init__(
        self, schedule: Schedule, work: Callable[[Driver], str], storage: Storage | None = None
    ) -> None:
        self.schedule = schedule
        self.name = f"simulated-{uuid.uuid4().hex}"
        self.files = MemoryFiles(self.name)
        self.storage: Storage = storage or MemoryFolders()
        self.table: dict[int, tuple[int, list[Any]]] = {}  # epoch -> incarnation, rows
        self.baton = threading.Semaphore(0)
        self.acting: Driver | None = None
        self.drivers: list[Driver] = []
        self.happened: Counter[tuple[str, str]] = Counter()  # (gap, fault) -> how often
        self.passed: set[str] = set()  # kinds of gaps that a driver came to
        self._planned = {(f.driver, f.gap): f.kind for f in schedule.faults}
        self._dice = random.Random(schedule.seed ^ 0x5EED)
        self._work = work

    def run(self, enough: Callable[[], bool], most: int) -> None:
        """Start drivers until the work is done and none sleeps; `most` of them at most."""
        while True:
            asleep = [d for d in self.drivers if not d.ended]
            finished = enough()
            if finished and not asleep:
                return
            may_start = not finished and len(self.drivers) < most
            if not asleep and not may_start:
                return
            if asleep and (not may_start or self._dice.random() < 0.4):
                self._dice.choice(asleep).go_on()
            else:
                driver = Driver(self, len(self.drivers), self._work)
                self.drivers.append(driver)
                driver.go_on()

    def close(self) -> None:
        """Forget the files."""
        forget(self.name)

    # -- called in the threads of drivers

    @property
    def driver(self) -> Driver:
        """Who acts."""
        assert self.acting is not None
        return self.acting

    def point(self, point: Point | Publication, epoch: int, attempt: str, partition: str) -> None:
        """Come to a point of the commit; an observer of `crash_points`."""
        del epoch, attempt, partition
        if self.acting is not None:
            self.act(f"point {point.value}", lambda: None, is_operation=False)

    def act(self, gap: str, operation: Callable[[], T], *, is_operation: bool = True) -> T:
        """Do something to the world, unless a fault comes between."""
        driver = self.driver
        if not driver.dead and driver.dice.random() < TURNS:
            driver.take_turns()
        if driver.dead:
            raise Killed
        fault = self._fault_at(driver)
        driver.gaps += 1
        self.passed.add(gap)
        if fault is None:
            return operation()
        if not is_operation and fault in (Fault.LOST_WRITE, Fault.LOST_ANSWER):
            fault = Fault.KILL_BEFORE
        self.happened[gap, fault.value] += 1
        return self._with(fault, driver, gap, operation)

    def _fault_at(self, driver: Driver) -> Fault | None:
        """Give what is planned here; a worker is killed at the next gap of a task."""
        fault = self._planned.get((driver.number, driver.gaps))
        if fault is Fault.WORKER_KILLED:
            driver.doomed_worker, fault = True, None
        if fault is None and driver.doomed_worker and threading.current_thread().name == STAGES:
            driver.doomed_worker, fault = False, Fault.WORKER_KILLED
        return fault

    def _with(self, fault: Fault, driver: Driver, gap: str, operation: Callable[[], T]) -> T:
        if fault is Fault.PAUSE_BEFORE:
            driver.sleep()
        done: Any = None
        if fault not in (Fault.KILL_BEFORE, Fault.LOST_WRITE):
            done = operation()
        if fault in DEADLY:
            driver.dead = True
            raise Killed
        if fault in (Fault.LOST_WRITE, Fault.LOST_ANSWER):
            msg = f"{gap}: {fault.value}"
            raise OSError(msg)
        if fault is Fault.WORKER_KILLED:
            driver.lost_worker = True
            raise WorkerKilled
        if fault is Fault.PAUSE_AFTER:
            driver.sleep()
        return done  # type: ignore[no-any-return]

    def take(self, epoch: int, incarnation: int, rows: list[Any]) -> None:
        """Write an epoch to the table, as docs/guide/streaming-io.md asks of a function.

        One transaction: an epoch replaces itself, and an older driver is refused.
        """

        def write() -> None:
            newest = max((known for known, _ in self.table.values()), default=0)
            if self.fences_table and incarnation < newest:
                msg = f"a driver of incarnation {newest} has written to the table"
                raise PermissionError(msg)
            self.table[epoch] = (incarnation, rows)

        self.act("table", write)

    fences_table = True
