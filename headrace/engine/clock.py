"""The only reader of the wall clock on the driver. Times are microseconds since 1970."""

from __future__ import annotations

import time


class WallClock:
    """Processing time as the machine tells it; never goes back, and never stands still.

    Where the machine's clock is behind what was told before, because somebody set it back or a
    driver on another machine was ahead, time goes on at half its pace until they meet: what is due
    in a second must not wait for the minutes by which a clock was wrong.

    Args:
        least: the time that was told before, by another driver; 0: none was.
    """

    def __init__(self, least: int = 0) -> None:
        # The last time told, and when that was by a clock that nobody sets; in nanoseconds.
        self._told = (least * 1_000, time.monotonic_ns())

    def now(self) -> int:
        """Give the time."""
        last, at = self._told
        moment = time.monotonic_ns()
        now = max(time.time_ns(), last + (moment - at) // 2)
        self._told = (now, moment)
        return now // 1_000


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
