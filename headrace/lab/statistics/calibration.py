"""Three small kernels that say how fast a machine is, so that results of two can be compared.

The interpreter's loop and the copy of memory are timed in CPU seconds, which other processes
disturb little; the sync of a file is timed by the clock, since it waits. Each is the best of some.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

_ROUNDS = 5
_LOOPS = 200_000
_COPY_BYTES = 16 * 2**20
_SYNC_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How fast this machine is."""

    loops_per_second: float  # of the interpreter
    copied_bytes_per_second: float
    sync_seconds: float  # until 4 KB are on disk


def calibrate(folder: str | None = None) -> Calibration:
    """Run the kernels; takes about a quarter of a second.

    Args:
        folder: whose disk is meant; the one for temporary files if not given.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        sync = min(_timed(time.perf_counter, lambda: _sync(file)) for _ in range(_ROUNDS))
    data = bytearray(_COPY_BYTES)
    copy = min(_timed(time.process_time, lambda: bytes(data)) for _ in range(_ROUNDS))
    loop = min(_timed(time.process_time, _loop) for _ in range(_ROUNDS))
    return Calibration(
        loops_per_second=_LOOPS / max(loop, 1e-9),
        copied_bytes_per_second=_COPY_BYTES / max(copy, 1e-9),
        sync_seconds=sync,
    )


def _timed(clock: Callable[[], float], work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def _loop() -> int:
    total = 0
    for number in range(_LOOPS):
        total += number & 7
    return total


def _sync(file: object) -> None:
    descriptor = file.fileno()  # type: ignore[attr-defined]
    os.write(descriptor, bytes(_SYNC_BYTES))
    os.fsync(descriptor)
