"""What every generator of events can do.

A generator is a description: frozen, small, picklable. It makes any range of its events, in any
process, in any order, and always the same ones: an event follows from the settings and its number.
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

#: The columns with which every generator's schema begins.
COMMON_FIELDS = (
    pa.field("number", pa.int64(), nullable=False),  # the event's place in the order of arrival
    pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),  # event time
    pa.field("nanos", pa.int64(), nullable=False),  # event time since 1970, not cut to microseconds
)


class Generator(Protocol):
    """Makes the events of one stream. Events are numbered from 0 in the order of their arrival."""

    @property
    def events(self) -> int:
        """How many there are in all."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of `batch`: `COMMON_FIELDS`, then the workload's own."""

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make the events `start` to `start + count - 1`, a row each."""

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make the same events as the objects that pipelines read, and their times in microseconds.

        This is the hot path of every run: column-wise work, then one cheap object per event.
        """

    def watermark(self, number: int) -> int:
        """Give a time in microseconds: neither this event nor a later one is older.

        Never falls as the number grows.
        """

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and the moment this event is to arrive."""

    def to_line(self, element: Any) -> str:
        """Write an element as one line of text, without its end."""

    def from_line(self, line: str) -> tuple[Any, int]:
        """Read such a line: the element, and its time in microseconds.

        Raises:
            ValueError: it is no such line; says what is wrong.
        """
