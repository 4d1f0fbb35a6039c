"""A batch of a streaming DataFrame that workers read themselves, without a DataFrame of its own.

Says in which parts it is read, and by how many tasks. So the plan of such an epoch is the same for
all epochs of its source, and can be kept. Takes and gives plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scans.choose import Partitions
from headrace.plan.scans import FilePart, Part, Scan

#: As Spark cuts files: no part is larger, and none smaller without need.
MOST_PART_BYTES = 128 << 20
LEAST_PART_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """Rows that workers read."""

    scan: Scan
    parts: Partitions  # for each task, what it reads


def in_tasks(parts: Sequence[Part], tasks: int) -> Partitions:
    """Give each of so many tasks its parts, in turns.

    >>> in_tasks("abcde", 2)
    (('a', 'c', 'e'), ('b', 'd'))
    """
    return tuple(tuple(parts[at::tasks]) for at in range(min(tasks, len(parts))))


def dealt(
    files: Sequence[tuple[str, int]], tasks: int
) -> tuple[tuple[FilePart, ...], ...]:
    """Cut files into parts and deal them out, so that all tasks have about as many bytes.

    Args:
        files: the path and the size of each.
        tasks: how many there may be.
    """
    total = sum(size for _, size in files)
    most = min(MOST_PART_BYTES, max(LEAST_PART_BYTES, -(-total // tasks)))
    parts = [
        FilePart(path, start, min(most, size - start), size)
        for path, size in files
        for start in range(0, max(size, 1), most)
    ]
    dealt_out: list[list[FilePart]] = [[] for _ in range(min(tasks, len(parts)))]
    loads = [0] * len(dealt_out)
    for part in sorted(parts, key=lambda p: (-p.length, p.path, p.start)):
        least = min(range(len(loads)), key=lambda at: (loads[at], len(dealt_out[at])))
        dealt_out[least].append(part)
        loads[least] += part.length
    return tuple(tuple(sorted(mine, key=lambda p: (p.path, p.start))) for mine in dealt_out)
