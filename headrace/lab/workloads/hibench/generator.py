"""Makes the records of the HiBench suite, as columns and as the lines that pipelines read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64, below, bits
from headrace.lab.data.timeline import Timeline
from headrace.lab.workloads.hibench.model import FIELDS, REST, SESSION_LETTERS, ip_and_time
from headrace.lab.workloads.hibench.settings import Settings

MS = 1_000_000  # nanoseconds
DATES = 3_652  # days from 2006-01-01 on
_IP, _DATE, _SESSION = range(3)  # streams of random numbers; sessions use several from theirs on
_WORDS = -(-SESSION_LETTERS // 8)  # 64-bit words that give a session's letters
# 64 letters, so that six bits of a random byte choose one evenly.
_LETTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8
)

_SCHEMA = pa.schema(
    [
        *COMMON_FIELDS,
        pa.field("timestamp", pa.int64(), nullable=False),  # milliseconds since 1970
        pa.field("ip", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("date", pa.string(), nullable=False),
        pa.field("line", pa.string(), nullable=False),  # the record as it arrives
    ]
)


@lru_cache(maxsize=4)
def _ips(seed: int, ips: int) -> pa.Array:
    """Give the addresses: distinct, for the last three parts count them."""
    first = seed % 200 + 11
    return pa.array(f"{first}.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(ips))


@lru_cache(maxsize=1)
def _dates() -> pa.Array:
    days = np.datetime64("2006-01-01") + np.arange(DATES)
    return pa.array(np.datetime_as_string(days).tolist())


@dataclass(frozen=True, slots=True)
class HiBenchGenerator:
    """The records of one run."""

    settings: Settings

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.settings.events

    @property
    def schema(self) -> pa.Schema:
        """The common columns, the fields that differ between records, and the line."""
        return _SCHEMA

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make some records, a row each."""
        numbers, nanos, ms = self._times(start, count)
        parts = self._parts(numbers)
        columns = [
            pa.array(numbers),
            pa.array(ms * 1_000).view(pa.timestamp("us", tz="UTC")),
            pa.array(nanos),
            pa.array(ms),
            *parts,
            _lines(ms, parts),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make the lines of some records, and their times in microseconds."""
        numbers, _, ms = self._times(start, count)
        return _lines(ms, self._parts(numbers)).to_pylist(), (ms * 1_000).tolist()

    def watermark(self, number: int) -> int:
        """Give a time in microseconds that neither this record nor a later one precedes."""
        return self._timeline().watermark(number, self.events, grain=1_000)

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and this record's arrival."""
        return self._timeline().due(number)

    def to_line(self, element: str) -> str:
        """Give the line, which the element is."""
        return element

    def from_line(self, line: str) -> tuple[str, int]:
        """Take a line, and its time in microseconds.

        Raises:
            ValueError: it has another number of fields, or its first is no whole number.
        """
        text = line.strip()
        found = text.count(",") + 1
        if found != FIELDS:
            msg = f"a record has {FIELDS} fields, this has {found}: {text[:100]!r}"
            raise ValueError(msg)
        return text, ip_and_time(text)[1] * 1_000

    def _timeline(self) -> Timeline:
        settings = self.settings
        return Timeline(base_ms=settings.base_ms, rate=settings.rate, group=settings.out_of_order)

    def _times(self, start: int, count: int) -> tuple[I64, I64, I64]:
        """Give numbers, nanoseconds, and the milliseconds that a record can say."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        nanos = self._timeline().nanos(numbers)
        return numbers, nanos, nanos // MS

    def _parts(self, numbers: I64) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Give address, session and date of records."""
        settings, seed = self.settings, self.settings.seed
        return (
            _ips(seed, settings.ips).take(pa.array(below(seed, _IP, numbers, settings.ips))),
            _sessions(seed, numbers),
            _dates().take(pa.array(below(seed, _DATE, numbers, DATES))),
        )


def _sessions(seed: int, numbers: I64) -> pa.Array:
    words = np.stack([bits(seed, _SESSION + word, numbers) for word in range(_WORDS)], axis=1)
    # Little-endian on every machine, or the same seed would give other letters.
    drawn = words.astype("<u8", copy=False).view(np.uint8)[:, :SESSION_LETTERS]
    letters = np.ascontiguousarray(_LETTERS[drawn & 63])
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * SESSION_LETTERS
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))


def _lines(ms: I64, parts: tuple[pa.Array, pa.Array, pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(pa.array(ms).cast(pa.string()), *parts, REST, ",")
