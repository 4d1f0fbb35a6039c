"""Events in the order of time on a Spark stream: a stateful processor, and the two that need it.

Rows wait in a list until the watermark has passed their slice of event time; then a timer takes
them, sorted. What is remembered from slice to slice is one pickled value per partition.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

_MICROS_PER_MS = 1_000


class InOrder(StatefulProcessor, ABC):  # type: ignore[misc]
    """Keeps rows until their slice has passed.

    Args:
        slice_ms: length of the slices.
    """

    OUTPUT: ClassVar[str]  # columns of the answer, with types
    WAITING: ClassVar[str]  # columns of the rows that wait, in the order they are sorted by

    def __init__(self, slice_ms: int) -> None:
        self._slice_ms = slice_ms

    @abstractmethod
    def step(self, known: dict[Any, Any], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Make rows of the answer; `known` is remembered, and may be changed."""

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._handle = handle
        self._waiting = handle.getListState("waiting", self.WAITING)
        self._known = handle.getValueState("known", "known binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Keep rows, with a timer at the end of every slice that has any."""
        del key, timerValues
        names = _names(self.WAITING)
        ends: set[int] = set()
        for frame in rows:
            slices = frame["micros"] // (self._slice_ms * _MICROS_PER_MS)
            ends.update(int(end + 1) * self._slice_ms for end in slices.unique())
            self._waiting.appendList(list(frame[names].itertuples(index=False, name=None)))
        for end in ends:
            self._handle.registerTimer(end)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Take the rows whose slice has ended."""
        del key, timerValues
        end = expiredTimerInfo.getExpiryTimeInMs() * _MICROS_PER_MS
        waiting = sorted(tuple(row) for row in self._waiting.get())
        ripe = [row for row in waiting if row[0] < end]
        self._waiting.clear()
        if len(ripe) < len(waiting):
            self._waiting.put(waiting[len(ripe) :])
        kept = self._known.get()
        known: dict[Any, Any] = pickle.loads(kept[0]) if kept else {}
        found = self.step(known, ripe)
        self._known.update((pickle.dumps(known),))
        if found:
            yield pd.DataFrame(found, columns=_names(self.OUTPUT))

    def close(self) -> None:
        """Leave nothing behind."""


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(", ")]


class MatchesInOrder(InOrder):
    """Finds tweets in a row with the same hash tags.

    Args:
        slice_ms: length of the slices.
        run: tweets that make a match.
    """

    OUTPUT = "author long, tags string, first long, last long"
    WAITING = "micros long, number long, author long, tags string"

    def __init__(self, slice_ms: int, run: int) -> None:
        super().__init__(slice_ms)
        self._run = run

    def step(self, known: dict[Any, Any], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Follow each author's run."""
        found = []
        for _, number, author, tags in rows:
            run_tags, numbers = known.get(author, (None, ()))
            numbers = (*numbers, number)[-self._run :] if tags == run_tags else (number,)
            known[author] = (tags, numbers)
            if tags and len(numbers) == self._run:
                found.append((author, tags, numbers[0], number))
        return found


class BargainsInOrder(InOrder):
    """Compares quotes with the average price of the trades before them.

    Args:
        slice_ms: length of the slices.
        last: trades that the average is made of.
    """

    OUTPUT = "number long, symbol string, price long, vwap double, index long"
    WAITING = "micros long, number long, symbol string, kind string, price long, size long"

    def __init__(self, slice_ms: int, last: int) -> None:
        super().__init__(slice_ms)
        self._last = last

    def step(self, known: dict[Any, Any], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Follow each symbol's trades."""
        found = []
        for _, number, symbol, kind, price, size in rows:
            if kind == "trade":
                known.setdefault(symbol, deque(maxlen=self._last)).append((price * size, size))
            elif symbol in known:
                paid = sum(trade[0] for trade in known[symbol])
                shares = sum(trade[1] for trade in known[symbol])
                index = (paid - price * shares) * size // shares
                if index > 0:
                    found.append((number, symbol, price, paid / shares, index))
        return found
