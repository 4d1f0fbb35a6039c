"""A clock that a test moves by hand. Times are microseconds since 1970."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ManualClock:
    """Processing time as a test tells it: it stands until it is moved.

    >>> clock = ManualClock(start=100)
    >>> clock.advance(2.5)
    >>> clock.now()
    102500000

    Args:
        start: seconds since 1970 at the beginning.
    """

    follows_script = False

    def __init__(self, start: float = 0.0) -> None:
        self._now = round(start * 1e6)
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []

    def now(self) -> int:
        """Give the time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Go on by so many seconds; who waits for the time looks at once."""
        with self._lock:
            self._now += round(seconds * 1e6)
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    def move(self, micros: int) -> None:
        """Pass over what a test stream says of the time: this clock is the test's own."""

    def resumed(self, now: int) -> ManualClock:
        """Go on, not before the time that the last driver told."""
        with self._lock:
            self._now = max(self._now, now)
        return self

    def tell(self, wake: Callable[[], None]) -> None:
        """Call somebody whenever the clock is moved."""
        self._wakers.append(wake)
