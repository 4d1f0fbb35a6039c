"""What a process and its descendants use: processor time and memory.

Processes that have ended take what they used with them, unless their parent has waited for them; so
a system is looked at again and again, and each process counts with what it was last seen with.
Where the kernel keeps no high-water mark of memory (macOS) the peak is None.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.lab.meter import Process, forget_peak, peak_bytes, running, tree, workers

#: What a system's processes are: the one that was started, which drives; JVMs; Python below a JVM.
DRIVER, JVM, WORKERS, OTHER = PARTS = ("driver", "jvm", "workers", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What some processes have used so far."""

    cpu_seconds: float
    #: The sum of each one's own peak, which is at least the peak of the sum.
    peak_bytes: int | None
    parts: Mapping[str, float] = field(default_factory=dict)  # processor seconds, of `PARTS`


def spent(before: Usage | None, after: Usage | None) -> tuple[float | None, Mapping[str, float]]:
    """Give the processor seconds between two looks, and those of each part; None: nobody knows."""
    if before is None or after is None:
        return None, {}
    parts = {part: after.parts[part] - before.parts.get(part, 0.0) for part in after.parts}
    return after.cpu_seconds - before.cpu_seconds, parts


class Tally:
    """Follows a process and its descendants.

    The lab's own process has held the results of earlier runs since before, so of its memory counts
    what a system whose driver runs in it adds.

    Args:
        root: the process.
        without: processes that do not count, nor do their descendants.
        processes: gives those that run now.
        peak: gives the most memory that a process has held, 0 where nobody knows.
    """

    def __init__(
        self,
        root: int,
        without: Collection[int] = (),
        processes: Callable[[], Iterable[Process]] = running,
        peak: Callable[[int], int] = peak_bytes,
    ) -> None:
        self._root, self._without = root, frozenset(without)
        self._processes, self._peak = processes, peak
        self._seconds: dict[int, float] = {}
        self._parts: dict[int, str] = {}
        self._peaks: dict[int, int] = {}
        self._held: dict[int, int] = {}  # bytes that a process had when it began to be followed
        if root == os.getpid():
            forget_peak(root)
            self._held[root] = peak(root)

    def look(self) -> Usage | None:
        """Give what was used so far; None where the process cannot be seen."""
        found = list(self._processes())
        if all(process.pid != self._root for process in found):
            return None
        below = tree(self._root, found, self._without)
        pythons = frozenset(workers(below))
        for pid, process in below.items():
            self._parts[pid] = self._part(process, pythons)
            self._seconds[pid] = max(self._seconds.get(pid, 0.0), process.own_seconds)
            peak = self._peak(pid) - self._held.get(pid, 0)
            self._peaks[pid] = max(self._peaks.get(pid, 0), peak)
        parts = dict.fromkeys(PARTS, 0.0)
        for pid, used in self._seconds.items():
            parts[self._parts[pid]] += used
        return Usage(
            cpu_seconds=sum(self._seconds.values()),
            peak_bytes=sum(self._peaks.values()) or None,
            parts=parts,
        )

    def _part(self, process: Process, pythons: Collection[int]) -> str:
        if process.pid == self._root:
            return DRIVER
        if process.command == "java":
            return JVM
        return WORKERS if process.pid in pythons else OTHER
