"""What came for the windows of a side input in one epoch, as it was encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apache_beam.transforms import sideinputs
from apache_beam.utils.timestamp import Duration

from headrace.worker.beam_types import Value, Window


def lookback_of(mapping: Callable[[Window], Window]) -> int | None:
    """Give how long before a main window's end the side window it asks for may end.

    Microseconds; None if nobody can know. Beam's own mappings ask for the side window that holds
    the main window's end; of others only an attribute `maximum_lookback` (seconds) can tell.
    """
    bound = getattr(mapping, "maximum_lookback", None)
    if bound is not None:
        return int(Duration.of(bound).micros)
    own = getattr(mapping, "__module__", "") == sideinputs.__name__
    return 0 if own else None


class Part:
    """What came in one epoch for one window, or for one key of it."""

    __slots__ = ("_from", "_source", "_spans", "_to", "pane", "values")

    def __init__(self, pane: int) -> None:
        self.pane = pane
        self.values: list[Value] = []
        self._spans: list[bytes] = []
        self._source = b""
        self._from = self._to = 0

    def take(self, value: Value, payload: bytes, start: int, end: int) -> None:
        """Add an element that stands in a payload; neighbours become one span."""
        self.values.append(value)
        if self._source is payload and self._to == start:
            self._to = end
            return
        self._cut()
        self._source, self._from, self._to = payload, start, end

    def spans(self) -> list[bytes]:
        """Give the elements as they were encoded."""
        self._cut()
        return self._spans

    def _cut(self) -> None:
        if self._to > self._from:
            self._spans.append(self._source[self._from : self._to])
        self._source, self._from, self._to = b"", 0, 0


class Arrived(NamedTuple):
    """A window that got elements in this epoch."""

    name: bytes
    time: int  # its last moment
    replaces: bool  # what came counts instead of what was there
    parts: dict[bytes, Part]  # by encoded key; one part without key where keys do not matter
