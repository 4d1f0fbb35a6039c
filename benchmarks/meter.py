"""Measures the processor time and memory of this process and its descendants, from /proc.

Where there is no /proc (macOS) the figures are None; nothing else changes.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")
SAMPLE_SECONDS = 0.25
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process as /proc shows it."""

    pid: int
    parent: int
    command: str
    cpu_seconds: float  # its own and that of children it has waited for


def read_stat(text: str) -> Process:
    """Read a line of /proc/PID/stat. The command may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    pid, _, command = head.partition(" (")
    fields = tail.split()  # fields[0] is the third of the line: the state
    ticks = sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
    return Process(
        pid=int(pid), parent=int(fields[1]), command=command,
        cpu_seconds=ticks / _TICKS_PER_SECOND,
    )


def tree(root: int, proc: Path = PROC) -> dict[int, Process]:
    """Give a process and all its descendants; empty where there is no /proc."""
    children: dict[int, list[Process]] = defaultdict(list)
    found: dict[int, Process] = {}
    for path in proc.glob("[0-9]*/stat"):
        try:
            process = read_stat(path.read_text())
        except (OSError, ValueError):
            continue  # it has ended since the listing
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
