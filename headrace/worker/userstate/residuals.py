"""Keeps what splittable DoFns have left for later: elements with the rest of a restriction.

Takes them as Beam gives them at the end of a bundle or at a split, gives back those that are due.
They lie in the shard's store, by the time at which they may go on; an index says which of them
holds the watermark. So an epoch costs what is due, not what waits.
"""

from __future__ import annotations

import marshal
from typing import NamedTuple

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

from headrace.state.layout import (
    Kind,
    any_key_group,
    head,
    key_group_of,
    name,
    rest_of,
    stamp,
    time_of,
    under,
    until,
)
from headrace.state.store import Store
from headrace.worker.beam_types import Proto

#: What an index row says beside its name: nothing.
_HERE = b"\x00"


class Residual(NamedTuple):
    """One residual."""

    due: int  # processing time, in microseconds
    hold: int  # the watermark of what it may still put out
    transform_id: str
    element: bytes


def residual_of(transform_id: str, application: Proto, now: int, *, at_once: bool) -> Residual:
    """Read what Beam calls a delayed bundle application; `at_once`: without its delay."""
    delay = 0 if at_once else application.requested_time_delay.ToMicroseconds()
    marks = [mark.ToMicroseconds() for mark in application.application.output_watermarks.values()]
    hold = min(marks, default=MIN_TIMESTAMP.micros)
    return Residual(now + max(0, delay), hold, transform_id, application.application.element)


class Residuals:
    """The residuals of one stage on one shard."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._store: Store | None = None
        self._fresh: list[Residual] = []

    def attach(self, store: Store) -> None:
        """Begin an epoch."""
        self._store = store
        self._fresh = []
        if self._first(Kind.RESIDUAL) is not None and self._first(Kind.RESIDUAL_HOLD) is None:
            self._index()  # a checkpoint of format 2 or before

    def add(
        self, transform_id: str, application: Proto, now: int, *, at_once: bool = False
    ) -> None:
        """Take what Beam calls a delayed bundle application; `at_once`: without its delay."""
        self._fresh.append(residual_of(transform_id, application, now, at_once=at_once))

    def take_due(self, now: int) -> list[Residual]:
        """Give those that may go on, and forget them."""
        assert self._store is not None
        due = [r for r in self._fresh if r.due <= now]
        self._fresh = [r for r in self._fresh if r.due > now]
        for row, value in list(self._store.scan(*until(Kind.RESIDUAL, self._stage, now))):
            residual = _read(row, value)
            due.append(residual)
            self._store.delete(row)
            self._store.delete(self._hold_row(row, residual))
        return due

    def take_all(self) -> list[Residual]:
        """Give all of them, and forget them."""
        return self.take_due(MAX_TIMESTAMP.micros)

    def hold(self) -> int:
        """Give what the output watermark may not pass."""
        stored = self._first(Kind.RESIDUAL_HOLD)
        holds = [r.hold for r in self._fresh] + ([] if stored is None else [stored])
        return min(holds, default=MAX_TIMESTAMP.micros)

    def next_wakeup(self) -> int | None:
        """Give the earliest time at which one may go on."""
        stored = self._first(Kind.RESIDUAL)
        times = [r.due for r in self._fresh] + ([] if stored is None else [stored])
        return min(times, default=None)

    def flush(self) -> None:
        """Write what is new to the store."""
        assert self._store is not None
        for count, residual in enumerate(self._fresh):
            key_group = any_key_group(residual.element)
            row = name(
                Kind.RESIDUAL, self._stage, key_group, count.to_bytes(4, "big"), time=residual.due
            )
            while self._store.get(row) is not None:  # the same moment and key group, epochs ago
                row += b"+"
            self._store.put(row, marshal.dumps(tuple(residual)[1:], 2))
            self._store.put(self._hold_row(row, residual), _HERE)
        self._fresh = []

    def _first(self, kind: Kind) -> int | None:
        """Give the earliest time among the stored rows of a kind."""
        assert self._store is not None
        for row, _ in self._store.scan(*under(head(kind, self._stage))):
            return time_of(row)
        return None

    def _hold_row(self, row: bytes, residual: Residual) -> bytes:
        """Give the name of the index row that belongs to a row."""
        return name(
            Kind.RESIDUAL_HOLD, self._stage, key_group_of(row), stamp(residual.due), rest_of(row),
            time=residual.hold,
        )

    def _index(self) -> None:
        assert self._store is not None
        for row, value in list(self._store.scan(*under(head(Kind.RESIDUAL, self._stage)))):
            self._store.put(self._hold_row(row, _read(row, value)), _HERE)


def _read(row: bytes, value: bytes) -> Residual:
    return Residual(time_of(row), *marshal.loads(value))
