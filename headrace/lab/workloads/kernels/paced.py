"""What the evenly paced generators of kernels, micro and scaling share.

Takes the settings of a stream and, from a subclass, the columns that are its own; gives all that
`Generator` asks for. Knows nothing of the questions that are asked of the events.
"""

from __future__ import annotations

import json
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64
from headrace.lab.data.timeline import Timeline
from headrace.lab.parameters import Whole, check, setting

#: 2015-07-15T00:00:00Z, a whole number of every window size in use: windows start full.
BASE_MS = 1_436_918_400_000
_NANOS_PER_MICRO = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The settings that every stream has."""

    events: int = setting(100_000, Whole(1), "How many events there are.")
    rate: int = setting(10_000, Whole(1, 10**9), "Events per second of event time.")
    seed: int = setting(1, Whole(), "Other seeds give other events.")
    out_of_order: int = setting(
        1, Whole(1, 10**6), "Events that may arrive in each other's place; 1: in order of time."
    )

    def __post_init__(self) -> None:
        check(self)


class Cells(Protocol):
    """The values of one column."""

    def arrow(self) -> pa.Array:
        """Give them as an Arrow array."""

    def objects(self) -> list[Any]:
        """Give them as Python objects."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers."""

    values: I64

    def arrow(self) -> pa.Array:
        """Give them as an Arrow array."""
        return pa.array(self.values)

    def objects(self) -> list[Any]:
        """Give them as Python objects."""
        return list(self.values.tolist())


@dataclass(frozen=True, slots=True)
class Words:
    """Texts that stand in a table; equal texts are one object."""

    table: tuple[str, ...]
    places: I64

    def arrow(self) -> pa.Array:
        """Give them as an Arrow array."""
        return _arrow_table(self.table).take(pa.array(self.places))

    def objects(self) -> list[Any]:
        """Give them as Python objects."""
        return list(map(self.table.__getitem__, self.places.tolist()))


@dataclass(frozen=True, slots=True)
class Phrases:
    """Pairs of texts with a space between."""

    first: Words
    second: Words

    def arrow(self) -> pa.Array:
        """Give them as an Arrow array."""
        return pc.binary_join_element_wise(self.first.arrow(), self.second.arrow(), " ")

    def objects(self) -> list[Any]:
        """Give them as Python objects."""
        pairs = zip(self.first.objects(), self.second.objects(), strict=True)
        return list(map(" ".join, pairs))


@lru_cache(maxsize=16)
def _arrow_table(table: tuple[str, ...]) -> pa.Array:
    return pa.array(table, pa.string())


@dataclass(frozen=True, slots=True)
class Paced(ABC):
    """A generator whose events come at an even pace.

    A subclass names the model of its events, a NamedTuple that begins with `number` and `time`
    (microseconds since 1970), and makes the columns for the rest of its fields.
    """

    model: ClassVar[type]
    own_fields: ClassVar[tuple[pa.Field, ...]]

    settings: Any  # a StreamSettings with the subclass's own settings beside

    @abstractmethod
    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Make the subclass's own columns for events with these numbers."""

    @property
    def timeline(self) -> Timeline:
        """When the events happen."""
        stream = self.settings
        return Timeline(base_ms=BASE_MS, rate=stream.rate, group=stream.out_of_order)

    @property
    def events(self) -> int:
        """How many there are in all."""
        return int(self.settings.events)

    @property
    def schema(self) -> pa.Schema:
        """The columns of `batch`."""
        return pa.schema([*COMMON_FIELDS, *self.own_fields])

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make the events `start` to `start + count - 1`, a row each."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        nanos = self.timeline.nanos(numbers)
        times = pa.array(nanos // _NANOS_PER_MICRO).cast(pa.timestamp("us", tz="UTC"))
        own = [cells.arrow() for cells in self.columns(numbers)]
        return pa.RecordBatch.from_arrays(
            [pa.array(numbers), times, pa.array(nanos), *own], schema=self.schema
        )

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make the same events as objects of the model, and their times in microseconds."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        times = (self.timeline.nanos(numbers) // _NANOS_PER_MICRO).tolist()
        own = [cells.objects() for cells in self.columns(numbers)]
        rows: Iterator[tuple[Any, ...]] = zip(numbers.tolist(), times, *own, strict=True)
        # tuple.__new__ skips the model's own constructor, a Python function that only repacks.
        return list(map(partial(tuple.__new__, self.model), rows)), times

    def watermark(self, number: int) -> int:
        """Give a time in microseconds: neither this event nor a later one is older."""
        return self.timeline.watermark(number, self.events)

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and this event's arrival."""
        return self.timeline.due(number)

    def to_line(self, element: Any) -> str:
        """Write an element as one line of JSON."""
        return json.dumps(element._asdict(), ensure_ascii=False, separators=(",", ":"))

    def from_line(self, line: str) -> tuple[Any, int]:
        """Read such a line: the element, and its time in microseconds.

        Raises:
            ValueError: the line is no JSON object with exactly the model's fields.
        """
        kinds = typing.get_type_hints(self.model)
        found = json.loads(line)  # JSONDecodeError is a ValueError and says where
        if not isinstance(found, dict) or found.keys() != kinds.keys():
            msg = f"{self.model.__name__} is an object with {', '.join(kinds)}, not: {line}"
            raise ValueError(msg)
        for name, kind in kinds.items():
            if type(found[name]) is not kind:
                msg = f"{name} of {self.model.__name__} is of type {kind.__name__}, not: {line}"
                raise ValueError(msg)
        return self.model(**found), found["time"]
