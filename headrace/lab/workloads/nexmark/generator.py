"""NEXMark's events, equal to those of Beam's Java generator in every field.

Brings numbers, times and records together: which id and which place in time an event number has,
and the forms in which events leave: Arrow batches, named tuples, lines of JSON.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64
from headrace.lab.data.timeline import SPREAD
from headrace.lab.workloads.nexmark.model import KINDS, Record, from_json, to_json
from headrace.lab.workloads.nexmark.records import Columns, auctions, bids, kinds_of, persons
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.lab.workloads.nexmark.texts import spread, strings_of
from headrace.lab.workloads.nexmark.times import Schedule

_ARROW_TYPES = {int: pa.int64(), str: pa.string()}


def _struct(kind: type[Any]) -> pa.DataType:
    return pa.struct([(name, _ARROW_TYPES[of]) for name, of in get_type_hints(kind).items()])


#: `kind` is the place of the record's type in `KINDS`; of the three records two are null.
SCHEMA = pa.schema(
    [
        *COMMON_FIELDS,
        pa.field("kind", pa.int8(), nullable=False),
        *(pa.field(kind.__name__.lower(), _struct(kind)) for kind in KINDS),
    ]
)


class EventNumbers(NamedTuple):
    """Where an event stands."""

    event_id: int  # seed and identity
    number: int  # on its generator's line of time, before groups are put out of order
    adjusted: int  # after that: the event's time follows from it


class _Made(NamedTuple):
    """A range of events, column by column."""

    adjusted: I64
    millis: I64
    kinds: npt.NDArray[np.int8]
    records: tuple[tuple[I64, Columns], ...]  # for each kind its rows and their values


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkGenerator:
    """Makes any range of the events, always the same ones.

    The event time of an element is its `date_time`, in whole milliseconds. The column `nanos` is
    what was cut to make it, and tells events of one millisecond apart.
    """

    settings: NexmarkSettings
    schedule: Schedule

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.settings.events

    @property
    def schema(self) -> pa.Schema:
        """The columns of `batch`."""
        return SCHEMA

    def numbers_of(self, number: int) -> EventNumbers:
        """Tell where one event stands."""
        ids, numbers, adjusted = self._numbers(np.array([number]))
        return EventNumbers(int(ids[0]), int(numbers[0]), int(adjusted[0]))

    def _numbers(self, arrivals: I64) -> tuple[I64, I64, I64]:
        """Give ids, numbers and adjusted numbers of the events that arrive so and so late.

        Generators that share the events take turns, event by event. The last one has the rest of
        the division too, and makes it alone.
        """
        settings, generators = self.settings, self.settings.num_event_generators
        first_id: I64 | int = settings.first_event_id
        numbers = settings.first_event_number + arrivals
        if settings.split and generators > 1:
            each = settings.max_events // generators
            taking_turns = arrivals < each * generators
            part = np.where(taking_turns, arrivals % generators, generators - 1)
            inside = np.where(
                taking_turns, arrivals // generators, arrivals - each * (generators - 1)
            )
            first_id = first_id + part * each
            numbers = settings.first_event_number + inside
        group = settings.out_of_order_group_size
        adjusted = numbers
        if group > 1:
            adjusted = numbers // group * group + numbers * SPREAD % group
        return first_id + adjusted, numbers, adjusted

    def _make(self, start: int, count: int) -> _Made:
        if start < 0 or count < 0 or start + count > self.events:
            msg = f"events {start} to {start + count - 1} are not among the {self.events}"
            raise ValueError(msg)
        ids, _, adjusted = self._numbers(np.arange(start, start + count))
        millis, kinds = self.schedule.millis(adjusted), kinds_of(ids)
        who, what, offer = (np.flatnonzero(kinds == kind) for kind in range(len(KINDS)))
        records = (
            (who, persons(ids[who], millis[who], self.settings)),
            (what, auctions(ids[what], adjusted[what], millis[what], self.schedule, self.settings)),
            (offer, bids(ids[offer], millis[offer], self.settings)),
        )
        return _Made(adjusted, millis, kinds, records)

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make the events `start` to `start + count - 1`, a row each.

        Raises:
            ValueError: there are no such events, or their texts are too long for one batch.
        """
        made = self._make(start, count)
        structs = [
            _spread_struct(kind, rows, columns, count)
            for kind, (rows, columns) in zip(SCHEMA.names[-3:], made.records, strict=True)
        ]
        numbers = pa.array(np.arange(start, start + count))
        times = pa.array(made.millis * 1_000).cast(SCHEMA.field("time").type)
        nanos = pa.array(self.schedule.nanos(made.adjusted))
        return pa.RecordBatch.from_arrays(
            [numbers, times, nanos, pa.array(made.kinds), *structs], schema=SCHEMA
        )

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make the same events as records, and their times in microseconds."""
        made = self._make(start, count)
        elements = np.empty(count, dtype=object)
        with _no_collection():
            for kind, (rows, columns) in zip(KINDS, made.records, strict=True):
                elements[rows] = np.fromiter(_records(kind, columns), dtype=object, count=len(rows))
            return elements.tolist(), (made.millis * 1_000).tolist()

    def watermark(self, number: int) -> int:
        """Give a time in microseconds: neither this event nor a later one is older."""
        group = self.settings.out_of_order_group_size
        if number >= self.events:
            last = self.numbers_of(self.events - 1).number
            return self._micros((last // group + 1) * group) // 1_000 * 1_000 + 1_000
        first = self.numbers_of(number).number // group * group
        holdback = self.settings.watermark_holdback_sec * 1_000_000
        return self._micros(first) // 1_000 * 1_000 - holdback

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and the moment this event is to arrive."""
        return self._micros(self.numbers_of(number).number) - self.settings.base_time * 1_000

    def _micros(self, number: int) -> int:
        return self.schedule.nanos_at(number) // 1_000

    def to_line(self, element: Record) -> str:
        """Write a record as JSON."""
        return to_json(element)

    def from_line(self, line: str) -> tuple[Record, int]:
        """Read a record, and its time in microseconds.

        Raises:
            ValueError: it is no record; says what is wrong.
        """
        record = from_json(line)
        return record, record.date_time * 1_000


def generator(settings: NexmarkSettings) -> NexmarkGenerator:
    """Make the generator that settings describe.

    >>> events, micros = generator(NexmarkSettings(num_events=5)).elements(0, 5)
    >>> events[1].item_name, events[1].initial_bid, events[4].price
    ('wkx mgee', 28873, 32530001)
    """
    return NexmarkGenerator(settings=settings, schedule=Schedule.of(settings))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage in what is just being made: a third of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _records(kind: type[Any], columns: Columns) -> Iterator[Any]:
    """Build named tuples from columns without the cost of calling their class."""
    values = [
        column.tolist() if isinstance(column, np.ndarray) else strings_of(column)
        for column in columns
    ]
    return map(partial(tuple.__new__, kind), zip(*values, strict=True))


def _spread_struct(name: str, rows: I64, columns: Columns, count: int) -> pa.StructArray:
    """Give a column of `count` structs that are null but in these rows."""
    fields = SCHEMA.field(name).type
    children = []
    for column in columns:
        if isinstance(column, np.ndarray):
            whole = np.zeros(count, dtype=np.int64)
            whole[rows] = column
            children.append(pa.array(whole))
        else:
            children.append(spread(column, rows, count))
    missing = np.ones(count, dtype=bool)
    missing[rows] = False
    return pa.StructArray.from_arrays(children, fields=list(fields), mask=pa.array(missing))
