"""Events of the lab's own questions: a number, a key, and the time at which they are to be sent.

Event time is the intended time of sending, so a latency that is taken from it counts every wait.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import OptionError
from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64, below
from headrace.lab.data_engine.schedule import Schedule

#: Event time of the first event, microseconds since 1970: a whole hour, so it starts a window.
BASE_MICROS = 1_600_002_000_000_000
_SCHEMA = pa.schema([*COMMON_FIELDS, pa.field("key", pa.int64(), nullable=False)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """What the events are told. Plain values: they travel in a message."""

    schedule: tuple[tuple[float, float], ...]  # phases: (seconds, events per second)
    keys: int = 100
    seed: int = 1
    window_ms: int = 1_000  # of a window that counts, and between two that slide
    panes: int = 4  # of a sliding window: it is so many times as long
    one_in: int = 100  # events, of which a filter keeps one
    every: int = 100  # events of a key, of which one has a row of running totals
    costs: tuple[tuple[str, float], ...] = ()  # steps of the filter: microseconds for each event
    spins: bool = False  # these steps compute so long; they wait if not

    def __post_init__(self) -> None:
        for name in ("keys", "window_ms", "panes", "one_in", "every"):
            if getattr(self, name) < 1:
                msg = f"{name} = {getattr(self, name)}: it must be 1 or more"
                raise OptionError(msg)

    def read_schedule(self) -> Schedule:
        """Give the schedule."""
        return Schedule.read(self.schedule)


class ProbeEvent(NamedTuple):
    """One event, as pipelines read it."""

    number: int
    key: int


@dataclass(frozen=True, slots=True)
class ProbeGenerator:
    """Makes the events."""

    settings: ProbeSettings

    @property
    def events(self) -> int:
        """How many there are."""
        return self.settings.read_schedule().events

    @property
    def schema(self) -> pa.Schema:
        """The common columns and the key."""
        return _SCHEMA

    def micros(self, numbers: I64) -> I64:
        """Give the times of events."""
        due = self.settings.read_schedule().due_all(numbers)
        # The slack gives an event one time, whether its phase was cut short later or not: what is
        # a whole microsecond may come out of either sum a rounding below it.
        return np.asarray(BASE_MICROS + np.floor(due * 1e6 + 1e-3).astype(np.int64))

    def keys(self, numbers: I64) -> I64:
        """Give the keys of events."""
        return below(self.settings.seed, 0, numbers, self.settings.keys)

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make some events, a row each."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        micros = self.micros(numbers)
        columns = [
            pa.array(numbers), pa.array(micros).view(_SCHEMA.field("time").type),
            pa.array(micros * 1_000), pa.array(self.keys(numbers)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make some events, and their times."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        pairs = zip(numbers.tolist(), self.keys(numbers).tolist(), strict=True)
        return [ProbeEvent(*pair) for pair in pairs], self.micros(numbers).tolist()

    def from_batch(self, batch: pa.RecordBatch) -> list[ProbeEvent]:
        """Make the elements of a pipeline from rows as `batch` makes them."""
        columns = (batch.column(name).to_pylist() for name in ("number", "key"))
        return [ProbeEvent(*pair) for pair in zip(*columns, strict=True)]

    def watermark(self, number: int) -> int:
        """Give a time that neither this event nor a later one precedes."""
        return int(self.micros(np.array([number]))[0]) + (number >= self.events)

    def due(self, number: int) -> int:
        """Microseconds between the start and the moment this event is to arrive."""
        return int(self.micros(np.array([number]))[0]) - BASE_MICROS

    def to_line(self, element: ProbeEvent) -> str:
        """Write an event as JSON."""
        return json.dumps(element._asdict())

    def from_line(self, line: str) -> tuple[ProbeEvent, int]:
        """Read such a line."""
        event = ProbeEvent(**json.loads(line))
        return event, self.watermark(event.number)


#: The names that a data engine looks for.
SETTINGS, generator = ProbeSettings, ProbeGenerator
