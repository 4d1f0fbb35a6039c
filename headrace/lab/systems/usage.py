"""What a process and its descendants use: processor time and memory, from /proc.

Processes that have ended take what they used with them, unless their parent has waited for them; so
a system is looked at again and again, and each process counts with what it was last seen with.
Where there is no /proc (macOS) nothing is known, and said to be so.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What some processes have used so far."""

    cpu_seconds: float
    peak_bytes: int  # the sum of each one's own peak, which is at least the peak of the sum


class Tally:
    """Follows a process and its descendants.

    Args:
        root: the process.
        without: processes that do not count, nor do their descendants.
        proc: where the kernel shows its processes.
    """

    def __init__(self, root: int, without: Collection[int] = (), proc: Path = PROC) -> None:
        self._root, self._without, self._proc = root, frozenset(without), proc
        self._ticks: dict[int, int] = {}
        self._peaks: dict[int, int] = {}

    def look(self) -> Usage | None:
        """Give what was used so far; None where it cannot be seen."""
        if not (self._proc / str(self._root)).is_dir():
            return None
        ticks: dict[int, int] = {}
        children: dict[int, list[int]] = defaultdict(list)
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                try:
                    told = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                # After the name: state, parent; then user and system.
                children[int(told[1])].append(int(entry.name))
                ticks[int(entry.name)] = sum(map(int, told[11:13]))
        waiting = [self._root]
        while waiting:
            process = waiting.pop()
            if process not in self._without:
                self._ticks[process] = max(self._ticks.get(process, 0), ticks.get(process, 0))
                peak = _peak(self._proc / str(process))
                self._peaks[process] = max(self._peaks.get(process, 0), peak)
                waiting += children[process]
        return Usage(
            cpu_seconds=sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK"),
            peak_bytes=sum(self._peaks.values()),
        )


def _peak(process: Path) -> int:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [line.split() for line in lines if line.startswith("VmHWM")]
    return int(sizes[0][1]) * 1024 if sizes else 0
