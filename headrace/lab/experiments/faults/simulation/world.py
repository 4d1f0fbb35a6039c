"""The world that simulated drivers share: files, a sink's folders, a table; and who acts in it.

Every driver has a thread, and one of them acts at a time: a driver goes on until a fault lets it
sleep or it ends. Every operation on the world is a gap, counted per driver, at which its schedule
may have a fault. So a run depends on its schedule alone.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.lab.experiments.faults.simulation.schedule import DEADLY, Fault, Schedule
from headrace.state.crash_points import Point
from headrace.state.file_system import System
from headrace.state.memory_files import MemoryFiles, forget

T = TypeVar("T")

#: A baton that is not handed on within this time is lost: the simulation itself hangs.
HUNG_SECONDS = 120.0


class Killed(BaseException):
    """The driver is dead; nothing it does from here on has any effect."""


class Driver:
    """One start of a driver, in a thread of its own."""

    def __init__(self, world: World, number: int, work: Callable[[Driver], str]) -> None:
        self.number = number
        self.gaps = 0
        self.dead = False
        self.ended = ""  # how; empty: it has not
        self._world = world
        self._work = work
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._begun = False

    def go_on(self) -> None:
        """Let it act until it sleeps or ends; called by the world."""
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

    def _live(self) -> None:
        self._go.acquire()
        self._world.here.driver = self
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
    """

    def __init__(self, schedule: Schedule, work: Callable[[Driver], str]) -> None:
        self.schedule = schedule
        self.name = f"simulated-{uuid.uuid4().hex}"
        self.files = MemoryFiles(self.name)
        self.storage = MemoryFolders()
        self.table: dict[int, tuple[int, list[Any]]] = {}  # epoch -> incarnation, rows
        self.baton = threading.Semaphore(0)
        self.here = threading.local()
        self.drivers: list[Driver] = []
        self.happened: Counter[tuple[str, str]] = Counter()  # (gap, fault) -> how often
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
        found: Driver = self.here.driver
        return found

    def point(self, point: Point, epoch: int, attempt: str, partition: str) -> None:
        """Come to a point of the commit; an observer of `crash_points`."""
        del epoch, attempt, partition
        if hasattr(self.here, "driver"):
            self.act(f"point {point.value}", lambda: None, is_operation=False)

    def act(self, gap: str, operation: Callable[[], T], *, is_operation: bool = True) -> T:
        """Do something to the world, unless a fault comes between."""
        driver = self.driver
        if driver.dead:
            raise Killed
        fault = self._planned.get((driver.number, driver.gaps))
        driver.gaps += 1
        if fault is None:
            return operation()
        if not is_operation and fault in (Fault.LOST_WRITE, Fault.LOST_ANSWER):
            fault = Fault.KILL_BEFORE
        self.happened[gap, fault.value] += 1
        return self._with(fault, driver, gap, operation)

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


class FaultyFiles:
    """The checkpoint's files as one driver sees them; has no lock, as object stores have none."""

    exclusive = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._files: System = world.files

    def path(self, name: str) -> str:
        """Give a file's address."""
        return self._files.path(name)

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        return self._files.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        self._world.act(f"write {_kind(name)}", lambda: self._files.write(name, data))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one."""
        return self._world.act(f"create {_kind(name)}", lambda: self._files.create(name, data))

    def size(self, name: str) -> int | None:
        """Give a file's size."""
        return self._files.size(name)

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder."""
        return self._files.listed(folder)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        if names:
            self._world.act(f"delete {_kind(names[0])}", lambda: self._files.delete(names))


def _kind(name: str) -> str:
    """Name a file's kind: manifests, incarnations, state, offsets, commits ..."""
    parts = name.split("/")
    return parts[2] if parts[0] == "spark" and len(parts) > 2 else parts[0]


class MemoryFolders:
    """Folders and small files where a sink writes; folders are moved at once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return path in self.files or self.is_folder(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return path in self.folders

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted."""
        below = f"{path}/"
        found = {
            one[len(below) :].partition("/")[0]
            for one in (*self.files, *self.folders)
            if one.startswith(below)
        }
        return sorted(found)

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it."""
        while path:
            self.folders.add(path)
            path = path.rpartition("/")[0]

    def move(self, source: str, target: str) -> None:
        """Give a folder or file another name, as `rename` does on a disk."""
        if not self.exists(source) or not self.is_folder(target.rpartition("/")[0]):
            raise FileNotFoundError(source)
        if self.names(target) or target in self.files:
            raise FileExistsError(target)
        for place in (self.files, dict.fromkeys(self.folders, b"")):
            for one in [o for o in place if o == source or o.startswith(f"{source}/")]:
                moved = target + one[len(source) :]
                if one in self.files:
                    self.files[moved] = self.files.pop(one)
                else:
                    self.folders.discard(one)
                    self.folders.add(moved)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it."""
        below = f"{path}/"
        for one in [o for o in (*self.files, *self.folders) if o == path or o.startswith(below)]:
            self.files.pop(one, None)
            self.folders.discard(one)

    def read(self, path: str) -> bytes:
        """Read a small file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; its folder must be there."""
        if not self.is_folder(path.rpartition("/")[0]):
            raise FileNotFoundError(path)
        self.files[path] = data


class FaultyFolders:
    """A sink's folders as one driver sees them; see `headrace.io.storage.Storage`."""

    atomic_moves = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._folders = world.storage

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self._folders.exists(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return self._folders.is_folder(path)

    def names(self, path: str) -> list[str]:
        """Give the names in a folder."""
        return self._folders.names(path)

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        self._world.act("sink make folder", lambda: self._folders.make_folder(path))

    def move(self, source: str, target: str) -> None:
        """Give a folder another name."""
        self._world.act("sink move", lambda: self._folders.move(source, target))

    def remove(self, path: str) -> None:
        """Remove a file or folder."""
        self._world.act("sink remove", lambda: self._folders.remove(path))

    def read(self, path: str) -> bytes:
        """Read a small file."""
        return self._folders.read(path)

    def write(self, path: str, data: bytes) -> None:
        """Write a small file."""
        self._world.act("sink write", lambda: self._folders.write(path, data))
