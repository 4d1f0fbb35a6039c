"""Spark's source `rate` on our own loop: the same numbers at the same times, with the same log."""

from __future__ import annotations

import time
from typing import Any

from headrace.engine.sources.stream_plans import StreamPlan
from headrace.errors import UnsupportedTransformError
from headrace.state.files import Files


class RateSource:
    """So many rows a second; a position is a number of seconds since the run began.

    Args:
        name: the read's.
        plan: of the streaming DataFrame.
        session: in which rows are made.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """

    look_seconds = 0.1

    def __init__(self, name: str, plan: StreamPlan, session: Any, files: Files, log: str) -> None:
        read = plan.read
        if read.option("rampUpTime", "0s") not in ("0", "0s"):
            msg = (
                f"{name}: rampUpTime of the source rate is not known to headrace's own loop, on "
                "which streams of Spark Connect run; leave it out"
            )
            raise UnsupportedTransformError(msg)
        self._plan, self._session = plan, session
        self._rows = read.most(name, "rowsPerSecond") or 1
        self._partitions = read.most(name, "numPartitions")
        self._fixed: int | None = None
        note = f"{log}/sources/0/0"
        files.create(note, f"v1\n{time.time_ns() // 1_000_000}".encode())  # unless it is there
        self._began = int(files.read(note).decode().splitlines()[1])

    def first(self) -> int:
        """A new run begins with nothing."""
        return 0

    def advanced(self, start: int) -> int:
        """Give the second that is over now."""
        if self._fixed is not None:
            return max(start, self._fixed)
        return max(start, self._now())

    def fix(self) -> None:
        """Take note of the time."""
        self._fixed = self._now()

    def rows(self, start: int, end: int) -> Any:
        """Give the rows of some seconds."""
        first, last = start * self._rows, end * self._rows
        parts = {"numPartitions": self._partitions} if self._partitions else {}
        made = self._session.range(first, last, 1, **parts).selectExpr(
            f"timestamp_millis({self._began} + CAST(round(id * 1000D / {self._rows}) AS BIGINT)) "
            "AS timestamp",
            "id AS value",
        )
        return self._plan.over(made)

    def promised(self, start: int, end: int) -> int:
        """Give how many rows some seconds have."""
        return (end - start) * self._rows

    def counted(self, end: int) -> None:
        """Numbers need no keeping."""

    def close(self) -> None:
        """Nothing is held."""

    def _now(self) -> int:
        return max(0, time.time_ns() // 1_000_000 - self._began) // 1000
