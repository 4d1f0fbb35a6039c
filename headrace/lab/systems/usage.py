"""What this process and its descendants use: processor time and memory, from /proc.

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


def usage(root: int, without: Collection[int] = (), proc: Path = PROC) -> Usage | None:
    """Add up a process and its descendants; None where they cannot be seen.

    Args:
        root: the process.
        without: processes that do not count, nor do their descendants.
        proc: where the kernel shows its processes.
    """
    if not (proc / str(root)).is_dir():
        return None
    ticks: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # After the name: state, parent; then user, system, and both of waited-for children.
            children[int(told[1])].append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, told[11:15]))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        if process not in without:
            found.append(process)
            waiting += children[process]
    per_second = os.sysconf("SC_CLK_TCK")
    return Usage(
        cpu_seconds=sum(ticks.get(process, 0.0) for process in found) / per_second,
        peak_bytes=sum(_peak(proc / str(process)) for process in found),
    )


def _peak(process: Path) -> int:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [line.split() for line in lines if line.startswith("VmHWM")]
    return int(sizes[0][1]) * 1024 if sizes else 0
