"""Writes down what a shard is about to do, so that a worker that dies tells where it was.

Used for the tries after a worker was lost, one element at a time: slow, but it names the element
that kills. What is written survives the process, as the system keeps it. The driver reads it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from apache_beam.utils.timestamp import Timestamp

from headrace.worker.beam_types import Value

#: A mark is written over the one before, so all have this length.
MARK_BYTES = 1_024


class Trace:
    """The last mark of one task."""

    def __init__(self, folder: str, superstep: int, shard: int) -> None:
        self._path = Path(folder) / f"{superstep:04d}-{shard:05d}.trace"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._shard = shard
        self._count = 0

    def element(self, steps: tuple[str, ...], value: Value, micros: int) -> None:
        """Say that an element is about to be processed: its number, type and time, not its data."""
        self._count += 1
        try:
            moment = Timestamp(micros=micros).to_rfc3339()
        except (ValueError, OverflowError):
            moment = f"{micros} microseconds"
        self._mark(steps, f"element {self._count}, {kind_of(value)} of time {moment}")

    def timer(self, steps: tuple[str, ...], family: str) -> None:
        """Say that a timer is about to fire."""
        self._mark(steps, f"a timer of family {family!r}")

    def _mark(self, steps: tuple[str, ...], what: str) -> None:
        names = ", ".join(repr(step) for step in steps[:3])
        rest = len(steps) - 3
        more = f" and {rest} more" if rest > 0 else ""
        note = {"shard": self._shard, "steps": (f"{names}{more}")[:400], "what": what[:400]}
        line = json.dumps(note).encode()
        if len(line) <= MARK_BYTES:
            os.pwrite(self._file, line.ljust(MARK_BYTES), 0)

    def done(self) -> None:
        """The task has come to its end: it has nothing to tell."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)


def kind_of(value: Value) -> str:
    """Name the type of an element; of a pair, those of its parts; of a row, its columns."""
    kind = type(value)
    if kind is tuple:
        return f"({', '.join(type(part).__qualname__ for part in value[:4])})"
    if kind.__qualname__.startswith("BeamSchema_"):  # a name that Beam makes up
        return f"row of {', '.join(getattr(value, '_fields', ()))}"
    return kind.__qualname__
