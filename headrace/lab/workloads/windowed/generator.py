"""Makes the events of the windowed aggregation (one stream) and join (two streams, merged).

Each pair of events that share a window and a key is a row of the join, so evenly spread keys would
give hundreds of rows for an event. Only some events of the second stream, `partners` of 1,000, have
a key that the first one has; the others have keys from `keys` up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64, below
from headrace.lab.data.timeline import Timeline
from headrace.lab.workloads.windowed.model import Event
from headrace.lab.workloads.windowed.settings import Settings

_KEY, _VALUE, _PARTNER = range(3)  # streams of random numbers

_SCHEMA = pa.schema(
    [
        *COMMON_FIELDS,
        pa.field("key", pa.int64(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("stream", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class WindowedGenerator:
    """The events of one run.

    Args:
        settings: of the run.
        streams: 1, or 2: events are of the first and the second stream in turn.
    """

    settings: Settings
    streams: int = 1

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.settings.events

    @property
    def schema(self) -> pa.Schema:
        """The common columns, key, value and stream."""
        return _SCHEMA

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make some events, a row each."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        nanos = self._timeline().nanos(numbers)
        columns = [
            pa.array(numbers),
            pa.array(nanos // 1_000).view(pa.timestamp("us", tz="UTC")),
            pa.array(nanos),
            *map(pa.array, self._draw(numbers)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make some events, and their times in microseconds."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        times = (self._timeline().nanos(numbers) // 1_000).tolist()
        fields = (column.tolist() for column in self._draw(numbers))
        return list(map(partial(tuple.__new__, Event), zip(times, *fields, strict=True))), times

    def watermark(self, number: int) -> int:
        """Give a time in microseconds that neither this event nor a later one precedes."""
        return self._timeline().watermark(number, self.events)

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and this event's arrival."""
        return self._timeline().due(number)

    def to_line(self, element: Event) -> str:
        """Write an event as a JSON object."""
        return json.dumps(element._asdict())

    def from_line(self, line: str) -> tuple[Event, int]:
        """Read such an object.

        Raises:
            ValueError: it is none, or its fields are not those of an event, whole numbers all.
        """
        found = json.loads(line)
        if not isinstance(found, dict) or set(found) != set(Event._fields):
            msg = f"not an event with {', '.join(Event._fields)}: {line[:100]!r}"
            raise ValueError(msg)
        odd = [name for name, value in found.items() if type(value) is not int]
        if odd:
            msg = f"{', '.join(odd)} must be a whole number: {line[:100]!r}"
            raise ValueError(msg)
        return Event(**found), found["time"]

    def _timeline(self) -> Timeline:
        settings = self.settings
        return Timeline(base_ms=settings.base_ms, rate=settings.rate, group=settings.out_of_order)

    def _draw(self, numbers: I64) -> tuple[I64, I64, I64]:
        """Give key, value and stream of events."""
        settings, seed = self.settings, self.settings.seed
        keys = below(seed, _KEY, numbers, settings.keys)
        values = below(seed, _VALUE, numbers, settings.max_value) + 1
        streams = numbers % self.streams
        if self.streams == 2:
            alone = below(seed, _PARTNER, numbers, 1_000) >= settings.partners
            keys = keys + (alone & (streams == 1)) * np.int64(settings.keys)
        return keys, values, streams
