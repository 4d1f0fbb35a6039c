"""Does harm to a system in mid-run: kills a worker or the driver, or makes its disk slow.

Of workers the one is killed that works hardest: a process below a JVM that this process has
started, or that a system's own process has, and no other. One that idles is left alone: it may be
of another system, and its end would show nothing. Where nobody works there is nobody to kill, and
the run is told to be void. The other faults want a driver in a process of its own.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

from headrace.errors import OptionError
from headrace.lab.meter import Process, arguments_of, running
from headrace.lab.record.trial import Fault

WORKER, DRIVER, DISK = "kill-worker", "kill-driver", "slow-disk"
#: What can be done to a live system.
KINDS = (WORKER, DRIVER, DISK)
_NO_RESTART = "a job of its that is killed is not started again on its checkpoint by the lab"
#: Kind -> system -> why it cannot be done to that one. The others' drivers can be started alone.
_REFUSED: Mapping[str, Mapping[str, str]] = {
    DRIVER: {
        "direct": "it keeps its state in memory alone, so there is nothing to go on with",
        **dict.fromkeys(("pyflink", "pyflink-thread", "flink-sql", "beam-flink"), _NO_RESTART),
    },
    DISK: {
        "direct": "it writes no checkpoint",
        **dict.fromkeys(
            ("spark", "pyflink", "pyflink-thread", "flink-sql", "beam-flink"),
            "its JVM writes the checkpoint, where the lab cannot slow a write",
        ),
    },
}
_LOOK_SECONDS = 0.02
#: How long workers are watched to see which of them works.
_WORK_SECONDS = 0.2
_PATIENCE_SECONDS = 5.0


def python_workers(root: int, processes: Iterable[Process] | None = None) -> dict[int, float]:
    """Give the Python processes without children below a JVM below a process, and their seconds.

    JVMs that another Python process below has started are that one's, and not looked for.
    """
    begun: Process | None = None
    children: dict[int, list[Process]] = defaultdict(list)
    for process in running() if processes is None else processes:
        children[process.parent].append(process)
        begun = process if process.pid == root else begun
    found: dict[int, float] = {}
    waiting = [] if begun is None else [(begun, False)]
    while waiting:
        process, is_below = waiting.pop()
        is_python = process.command.startswith("python")
        if is_below and is_python and not children[process.pid]:
            found[process.pid] = process.own_seconds
        if is_below or process.pid == root or not is_python:
            is_below = is_below or process.command == "java"
            waiting += [(child, is_below) for child in children[process.pid]]
    return found


def busiest(before: dict[int, float], after: dict[int, float]) -> int | None:
    """Give the process that has used most between two looks; None if none has used any.

    >>> busiest({1: 10, 2: 50}, {1: 15, 2: 51, 3: 2})
    1
    >>> busiest({1: 10}, {1: 10}) is None
    True
    """
    used = {process: now - before.get(process, now) for process, now in after.items()}
    most = max(used, key=lambda process: used[process], default=None)
    return most if most is not None and used[most] > 0 else None


def asks_for_offsets(arguments: Iterable[str]) -> bool:
    """Whether a command is that of the process which asks a Python data source for offsets.

    It is the driver's, and its end is that of the query, on Spark as on headrace.

    >>> asks_for_offsets(["python", "-m", "pyspark.sql.streaming.python_streaming_source_runner"])
    True
    >>> asks_for_offsets(["python", "-m", "headrace.worker.daemon", "pyspark.worker"])
    False
    """
    return any("python_streaming_source_runner" in argument for argument in arguments)


def _has_tasks(pid: int) -> bool:
    arguments = arguments_of(pid)
    return bool(arguments) and not asks_for_offsets(arguments)


def check(name: str, fault: Fault | None) -> None:
    """Refuse what cannot be done to a system.

    Raises:
        OptionError: says why not, or what can be done.
    """
    if fault is None:
        return
    if fault.kind not in KINDS:
        msg = f"a live system cannot be given the fault {fault.kind!r}: {', '.join(KINDS)}"
        raise OptionError(msg)
    why = _REFUSED.get(fault.kind, {}).get(name)
    if why is not None:
        msg = f"{name} cannot be given the fault {fault.kind}: {why}"
        raise OptionError(msg)


class Act(Protocol):
    """What a fault does to a system."""

    def do(self) -> bool:
        """Do it; say whether it could be done."""

    def undo(self) -> None:
        """Make an end of it, if it is one that lasts."""

    def void(self) -> str:
        """Say why what was done shows nothing; empty if it does show something."""


class KillWorker:
    """Kills the Python worker that works hardest.

    Args:
        root: gives the process that has started the system's JVM.
    """

    def __init__(self, root: Callable[[], int]) -> None:
        self._root = root
        self._is_killed = False

    def do(self) -> bool:
        """Kill one that is at work, if there is any."""
        before = python_workers(self._root())
        time.sleep(_WORK_SECONDS)
        after = python_workers(self._root())
        worker = busiest(before, {pid: used for pid, used in after.items() if _has_tasks(pid)})
        if worker is None:
            return False
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self._is_killed = True
        return True

    def undo(self) -> None:
        """What is dead stays so."""

    def void(self) -> str:
        """Say whether nobody was there."""
        return "" if self._is_killed else "no worker was at work at its time"


class KillDriver:
    """Kills the driver, which whoever runs the system starts again.

    Args:
        kill: does it; says whether there was one.
    """

    def __init__(self, kill: Callable[[], bool]) -> None:
        self._kill = kill
        self._is_killed = False

    def do(self) -> bool:
        """Kill it."""
        self._is_killed = self._kill()
        return self._is_killed

    def undo(self) -> None:
        """What is dead stays so."""

    def void(self) -> str:
        """Say whether nobody was there."""
        return "" if self._is_killed else "there was no driver at its time"


class SlowDisk:
    """Makes the disk of the checkpoint slow for a while.

    Args:
        marker: a file; the disk is slow while it is there.
    """

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def do(self) -> bool:
        """Make it slow."""
        self._marker.touch()
        return True

    def undo(self) -> None:
        """Make it as fast as it was."""
        self._marker.unlink(missing_ok=True)

    def void(self) -> str:
        """Say whether nothing was written meanwhile."""
        from headrace.lab.slow_disk import felt  # it knows headrace from inside

        return "" if felt(self._marker).exists() else "nothing was written to the disk meanwhile"


class Harm:
    """Does a fault's harm at its time, while the context is open.

    Args:
        fault: what and when; None: nothing.
        act: does it.
        started: gives the start of the load, in seconds since 1970; None: it has not begun.
    """

    def __init__(
        self, fault: Fault | None, act: Act | None, started: Callable[[], float | None]
    ) -> None:
        self._fault = fault
        self._act = act
        self._started = started
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-harm", daemon=True)

    @property
    def void(self) -> str:
        """Why the run shows nothing of the fault; empty if it does."""
        if self._fault is None or self._act is None:
            return ""
        why = self._act.void()
        return f"the fault {self._fault.kind} was not made: {why}" if why else ""

    def __enter__(self) -> Harm:
        if self._act is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._act is not None:
            self._act.undo()

    def _run(self) -> None:
        assert self._fault is not None and self._act is not None
        at = None
        while not self._stop.wait(_LOOK_SECONDS):
            if at is None:
                begun = self._started()
                at = None if begun is None else begun + self._fault.at_seconds
            elif time.time() >= at:
                if self._act.do():
                    self._stop.wait(max(0.0, at + self._fault.lasts_seconds - time.time()))
                    self._act.undo()
                    return
                if time.time() > at + _PATIENCE_SECONDS:
                    return
