"""Steps of a known cost, which a question can have beside its own: they pass every element on.

So a profile that says what a faster step would give can be held against what it really gives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

#: Seconds that are owed before they are spent: a pause is never as short as it was asked for.
_LEAST_SECONDS = 0.002


class Spend(beam.DoFn):  # type: ignore[misc]
    """Takes so long for an element, on average, and gives it as it was.

    Args:
        micros: for each element.
        spins: computes for so long; waits if not.
    """

    def __init__(self, micros: float, *, spins: bool) -> None:
        self._seconds, self._spins = micros / 1e6, spins
        self._owed = 0.0

    def process(self, element: Any) -> Iterator[Any]:
        """Take one element."""
        self._owed += self._seconds
        if self._owed >= _LEAST_SECONDS:
            self._owed -= _computed(self._owed) if self._spins else _waited(self._owed)
        yield element


def _waited(seconds: float) -> float:
    start = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - start


def _computed(seconds: float) -> float:
    start = time.thread_time()
    while (spent := time.thread_time() - start) < seconds:
        pass
    return spent
