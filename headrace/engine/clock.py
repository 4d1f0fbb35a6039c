"""The only reader of the wall clock on the driver. Times are microseconds since 1970."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What tells processing time."""

    @property
    def follows_script(self) -> bool:
        """Whether only steps of test streams and the loop itself move it."""

    def now(self) -> int:
        """Give the time."""

    def move(self, micros: int) -> None:
        """Go on by so much, where a script says so; a clock of its own passes over it."""

    def resumed(self, now: int) -> Clock:
        """Give the clock of a run that goes on after another driver, which told this time last."""


class WallClock:
    """Processing time as the machine tells it; never goes back, and never stands still.

    Where the machine's clock is behind what was told before, because somebody set it back or a
    driver on another machine was ahead, time goes on at half its pace until they meet: what is due
    in a second must not wait for the minutes by which a clock was wrong.

    Args:
        least: the time that was told before, by another driver; 0: none was.
    """

    follows_script = False

    def __init__(self, least: int = 0) -> None:
        # The last time told, and when that was by a clock that nobody sets; in nanoseconds.
        self._last = (least * 1_000, time.monotonic_ns())

    def now(self) -> int:
        """Give the time."""
        last, at = self._last
        moment = time.monotonic_ns()
        now = max(time.time_ns(), last + (moment - at) // 2)
        self._last = (now, moment)
        return now // 1_000

    def move(self, micros: int) -> None:
        """Stay: no script moves this clock."""

    def resumed(self, now: int) -> WallClock:
        """Go on from there: what is due was written down by that driver's clock."""
        return WallClock(now)


class ScriptClock:
    """Processing time as a test stream tells it."""

    follows_script = True

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """Give the time."""
        return self._now

    def move(self, micros: int) -> None:
        """Go on by so much."""
        self._now += micros

    def resumed(self, now: int) -> ScriptClock:
        """Go on from there."""
        return ScriptClock(now)
