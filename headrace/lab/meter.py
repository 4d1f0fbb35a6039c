"""Measures the processor time and memory of this process and its descendants.

psutil knows the processes. The kernel's high-water mark of memory, which it does not tell, is read
from /proc; where there is none (macOS) the peak is None, and nothing else changes.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

PROC = Path("/proc")
SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process."""

    pid: int
    parent: int
    command: str
    own_seconds: float  # of processors, its own
    cpu_seconds: float  # and with that of children it has waited for


def running() -> list[Process]:
    """Give the processes of this machine that we may look at."""
    found = []
    for process in psutil.process_iter(["pid", "ppid", "name", "cpu_times"]):
        told = process.info
        if told["cpu_times"] is not None:
            found.append(
                Process(
                    pid=told["pid"], parent=told["ppid"], command=told["name"] or "",
                    own_seconds=sum(told["cpu_times"][:2]),  # user, system
                    cpu_seconds=sum(told["cpu_times"][:4]),  # and the children's
                )
            )
    return found


def arguments_of(pid: int) -> list[str]:
    """Give the command line of a process; empty if it has ended."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def tree(
    root: int, processes: Iterable[Process] | None = None, without: Collection[int] = ()
) -> dict[int, Process]:
    """Give a process and all its descendants, by default of those that are running.

    Processes to be left out are so with their descendants.
    """
    children: dict[int, list[Process]] = defaultdict(list)
    found: dict[int, Process] = {}
    for process in running() if processes is None else processes:
        if process.pid in without:
            continue
        children[process.parent].append(process)
        if process.pid == root:
            found[root] = process
    waiting = list(found)
    while waiting:
        for process in children[waiting.pop()]:
            found[process.pid] = process
            waiting.append(process.pid)
    return found


def workers(processes: Mapping[int, Process]) -> list[int]:
    """Give the Python processes below a JVM: Spark's workers and their daemon."""

    def below_java(process: Process) -> bool:
        above = processes.get(process.parent)
        return above is not None and (above.command == "java" or below_java(above))

    return [p.pid for p in processes.values() if p.command.startswith("python") and below_java(p)]


def peak_bytes(pid: int, proc: Path = PROC) -> int:
    """Give the most memory the process has held since it began or was last reset."""
    try:
        lines = (proc / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in lines if line.startswith(("VmHWM", "VmRSS")))
    size = sizes.get("VmHWM") or sizes.get("VmRSS") or "0 kB"
    return int(size.split()[0]) * 1024


def forget_peak(pid: int, proc: Path = PROC) -> None:
    """Let the kernel's high-water mark of a process begin anew."""
    try:
        (proc / str(pid) / "clear_refs").write_text("5")
    except OSError:
        return  # not ours to write: the mark then covers the process's whole life


class PartsMeter:
    """Meters, while a block runs, whose processor time it takes: the JVM's, its workers', ours.

    Looks now and then, since a worker that ends takes its time with it: Spark ends idle ones.
    """

    def __init__(self) -> None:
        self._own = os.getpid()
        self._begun: dict[int, float] = {}  # process -> its seconds before the block
        self._last: dict[int, tuple[str, float]] = {}  # process -> its part, its seconds so far
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="parts-meter", daemon=True)

    def __enter__(self) -> PartsMeter:
        self._look()
        self._begun = {pid: seconds for pid, (_, seconds) in self._last.items()}
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Processor seconds of the JVM, of its Python workers, of this process."""
        found = dict.fromkeys(("java", "worker", "driver"), 0.0)
        for pid, (part, seconds) in self._last.items():
            found[part] += seconds - self._begun.get(pid, 0.0)
        return found["java"], found["worker"], found["driver"]

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        processes = tree(self._own)
        below = set(workers(processes))
        for pid, process in processes.items():
            part = "worker" if pid in below else "driver" if pid == self._own else ""
            part = part or ("java" if process.command == "java" else "")
            if part:
                self._last[pid] = part, process.own_seconds


class Meter:
    """Meters the process tree while a block runs.

    The kernel's own high-water mark is read, so that a peak between two looks is not missed; the
    looks are there for workers that end before the block does.
    """

    def __init__(self) -> None:
        self.cpu_seconds: float | None = None
        self.peak_worker_bytes: int | None = None
        self._before = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench-meter", daemon=True)

    def __enter__(self) -> Meter:
        processes = tree(os.getpid())
        self._before = sum(p.cpu_seconds for p in processes.values())
        for pid in workers(processes):
            forget_peak(pid)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        after = tree(os.getpid())
        if after:
            self.cpu_seconds = sum(p.cpu_seconds for p in after.values()) - self._before

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        peaks = [peak_bytes(pid) for pid in workers(tree(os.getpid()))]
        if peaks:
            self.peak_worker_bytes = max(self.peak_worker_bytes or 0, *peaks)
