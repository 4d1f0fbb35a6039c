"""The only reader of the wall clock on the driver. Times are microseconds since 1970."""

from __future__ import annotations

import time


class WallClock:
    """Processing time as the machine tells it; never goes back, also if the machine's does."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """Give the time."""
        self._last = max(self._last, time.time_ns() // 1_000)
        return self._last


class ScriptClock:
    """Processing time as a test stream tells it."""

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """Give the time."""
        return self._now

    def move(self, micros: int) -> None:
        """Go on by so much."""
        self._now += micros
