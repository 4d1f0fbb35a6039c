"""Does harm to a system in mid-run: kills one of Spark's Python workers.

Kills a process below a JVM that this process has started, and no other. Where /proc shows nothing
(macOS) there is nobody to kill, and the run is told to be void.
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
_PATIENCE_SECONDS = 5.0


def python_workers(root: int, proc: Path = PROC) -> list[int]:
    """Give the Python processes without children below a JVM below a process."""
    names: dict[int, str] = {}
    children: dict[int, list[int]] = defaultdict(list)
    entries = proc.iterdir() if proc.is_dir() else ()
    for entry in entries:
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            names[int(entry.name)] = head.partition("(")[2]
            children[int(rest.split()[1])].append(int(entry.name))
    found = []
    waiting = [(root, False)]
    while waiting:
        process, is_below = waiting.pop()
        name = names.get(process, "")
        if is_below and name.startswith("python") and not children[process]:
            found.append(process)
        waiting += [(child, is_below or name == "java") for child in children[process]]
    return found


class Harm:
    """Does a fault's harm at its time, while the context is open.

    Args:
        fault: what and when; None: nothing.
        started: gives the start of the load, in seconds since 1970; None: it has not begun.
    """

    def __init__(self, fault: Fault | None, started: Callable[[], float | None]) -> None:
        self._fault = fault
        self._started = started
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-harm", daemon=True)
        self.killed: int | None = None  # the process, once it is killed

    @property
    def void(self) -> str:
        """Why the run shows nothing of the fault; empty if it does."""
        if self._fault is None or self.killed is not None:
            return ""
        return f"the fault {self._fault.kind} was not made: no worker was found at its time"

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
        for worker in python_workers(os.getpid()):
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.killed = worker
            return True
        return False
