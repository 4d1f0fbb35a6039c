"""Does harm to a system in mid-run: kills the Python worker that works hardest.

Kills a process below a JVM that this process has started, or that a system's own process has, and
no other. One that idles is left alone: it may be of another system, and its end would show nothing.
Where /proc shows nothing (macOS) there is nobody to kill, and the run is told to be void.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from headrace.lab.experiments.trial import Fault

PROC = Path("/proc")
#: What can be done to a live system.
KINDS = ("kill-worker",)
_LOOK_SECONDS = 0.02
#: How long workers are watched to see which of them works.
_WORK_SECONDS = 0.2
_PATIENCE_SECONDS = 5.0


def python_workers(root: int, proc: Path = PROC) -> dict[int, int]:
    """Give the Python processes without children below a JVM below a process, and their ticks.

    JVMs that another Python process below has started are that one's, and not looked for.
    """
    names: dict[int, str] = {}
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = defaultdict(list)
    entries = proc.iterdir() if proc.is_dir() else ()
    for entry in entries:
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            told = rest.split()
            names[int(entry.name)] = head.partition("(")[2]
            ticks[int(entry.name)] = sum(map(int, told[11:13]))
            children[int(told[1])].append(int(entry.name))
    found = {}
    waiting = [(root, False)]
    while waiting:
        process, is_below = waiting.pop()
        name = names.get(process, "")
        if is_below and name.startswith("python") and not children[process]:
            found[process] = ticks[process]
        if is_below or process == root or not name.startswith("python"):
            waiting += [(child, is_below or name == "java") for child in children[process]]
    return found


def busiest(before: dict[int, int], after: dict[int, int]) -> int | None:
    """Give the process that has used most between two looks; None if none has used any.

    >>> busiest({1: 10, 2: 50}, {1: 15, 2: 51, 3: 2})
    1
    >>> busiest({1: 10}, {1: 10}) is None
    True
    """
    used = {process: ticks - before.get(process, ticks) for process, ticks in after.items()}
    most = max(used, key=lambda process: used[process], default=None)
    return most if most is not None and used[most] > 0 else None


class Harm:
    """Does a fault's harm at its time, while the context is open.

    Args:
        fault: what and when; None: nothing.
        started: gives the start of the load, in seconds since 1970; None: it has not begun.
        root: the process that has started the system's JVM.
    """

    def __init__(
        self, fault: Fault | None, started: Callable[[], float | None], root: int
    ) -> None:
        self._fault = fault
        self._root = root
        self._started = started
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-harm", daemon=True)
        self.killed: int | None = None  # the process, once it is killed

    @property
    def void(self) -> str:
        """Why the run shows nothing of the fault; empty if it does."""
        if self._fault is None or self.killed is not None:
            return ""
        return f"the fault {self._fault.kind} was not made: no worker was at work at its time"

    def __enter__(self) -> Harm:
        if self._fault is not None:
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

    def _run(self) -> None:
        assert self._fault is not None
        at = None
        while not self._stop.wait(_LOOK_SECONDS):
            if at is None:
                begun = self._started()
                at = None if begun is None else begun + self._fault.at_seconds
            elif time.time() >= at:
                if self._kill() or time.time() > at + _PATIENCE_SECONDS:
                    return

    def _kill(self) -> bool:
        before = python_workers(self._root)
        self._stop.wait(_WORK_SECONDS)
        worker = busiest(before, python_workers(self._root))
        if worker is None:
            return False
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.killed = worker
        return True
