"""The events of a workload as a data engine sends them: made before, dated by the schedule.

What an event says comes from a file that the workload's own generator has made; when it happened
follows from the load, so that event time is the time at which it was to be sent. A file is short:
after its last event it begins anew, with new numbers, and for NEXMark with new people and auctions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data_engine.events import FileEvents
from headrace.lab.data_engine.schedule import I64, Schedule
from headrace.lab.live.facts import BASE_MS, STREAMS

#: Ids of NEXMark of which one is a person and three are auctions.
_BLOCK, _PEOPLE, _AUCTIONS = 50, 1, 3
#: Column -> the fields of it that are times, and those that name people and auctions.
_RECORDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, int]]] = {
    "person": (("date_time",), {"id": _PEOPLE}),
    "auction": (("date_time", "expires"), {"id": _AUCTIONS, "seller": _PEOPLE}),
    "bid": (("date_time",), {"auction": _AUCTIONS, "bidder": _PEOPLE}),
}
#: Columns that are the event's time in milliseconds.
_TIMES = ("event_time", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSettings:
    """What the events are told. Plain values: they travel in a message."""

    schedule: Sequence[Sequence[float]]  # phases: (seconds, events per second)
    stream: str
    content: str  # the file

    def read_schedule(self) -> Schedule:
        """Give the schedule."""
        return Schedule.read(self.schedule)


@lru_cache(maxsize=4)
def _content(path: str) -> FileEvents:
    return FileEvents(path)


@dataclass(frozen=True, slots=True)
class SentEvents:
    """Makes the events."""

    settings: SentSettings

    @property
    def events(self) -> int:
        """How many there are."""
        return self.settings.read_schedule().events

    @property
    def schema(self) -> pa.Schema:
        """The common columns and those that are sent of the stream's own."""
        return _content(self.settings.content).schema

    def micros(self, numbers: I64) -> I64:
        """Give the times of events."""
        due = self.settings.read_schedule().due_all(numbers)
        # As in `probe.events`: one time, whether a phase was cut short later or not.
        micros = BASE_MS * 1_000 + np.floor(due * 1e6 + 1e-3).astype(np.int64)
        if STREAMS[self.settings.stream].millis:
            return np.asarray(micros // 1_000 * 1_000)
        return np.asarray(micros)

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make some events, a row each."""
        content = _content(self.settings.content)
        parts = []
        while count:
            turn, first = divmod(start, content.events)
            some = min(count, content.events - first)
            numbers = np.arange(start, start + some, dtype=np.int64)
            made = content.batch(first, some)
            parts.append(_dated(made, numbers, self.micros(numbers), turn * content.events))
            start, count = start + some, count - some
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _dated(made: pa.RecordBatch, numbers: I64, micros: I64, before: int) -> pa.RecordBatch:
    """Give rows their numbers and times; `before` is how many events precede this turn."""
    columns = [
        pa.array(numbers), pa.array(micros).view(COMMON_FIELDS[1].type), pa.array(micros * 1_000),
    ]
    millis = micros // 1_000
    for name in made.schema.names[len(COMMON_FIELDS) :]:
        column = made.column(name)
        if name in _RECORDS:
            column = _record(name, column, millis, before // _BLOCK)
        elif name in _TIMES:
            column = pa.array(millis)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=made.schema)


def _record(name: str, column: pa.StructArray, millis: I64, blocks: int) -> pa.StructArray:
    """Move a record in time, and its ids on: those of an earlier turn of the file are taken."""
    times, ids = _RECORDS[name]
    children = {}
    for index, field in enumerate(column.type):
        # Not `flatten`, which would look at what is null.
        children[field.name] = column.field(index)
    before = children["date_time"].to_numpy()
    for each in times:
        children[each] = pa.array(millis + (children[each].to_numpy() - before))
    if blocks:
        for each, step in ids.items():
            children[each] = pa.array(children[each].to_numpy() + blocks * step)
    return pa.StructArray.from_arrays(
        list(children.values()), fields=list(column.type), mask=column.is_null()
    )


#: The names that a data engine looks for.
SETTINGS, generator = SentSettings, SentEvents


def plain(settings: SentSettings) -> dict[str, Any]:
    """Give settings as a message carries them."""
    return {
        "schedule": [list(phase) for phase in settings.schedule], "stream": settings.stream,
        "content": settings.content,
    }
