"""Looks at some of the keys that go to an exchange, so that a hot one can be named.

Stands before a channel's writer and hands everything on. Of each batch a few keys are looked at,
evenly spread over it; each stands for those between. There only in runs that somebody watches.
"""

from __future__ import annotations

from typing import Any

from headrace.worker.batched.batches import Meta
from headrace.worker.beam_types import Element, Value
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.heavy_keys import HeavyKeys
from headrace.worker.exchange.merging import Shares, shown_key
from headrace.worker.exchange.writers import Writer

#: Keys that are looked at in a batch: a thousand of them, from some batches, tell a share to 3 %.
LOOKS = 32
#: Elements that come one by one: every so many is looked at.
EVERY = 61  # a prime, so that no rhythm of the data falls in with it
#: A key with this part of all elements is worth a name.
HOT_SHARE = 0.1


class WatchedKeys:
    """A writer of pairs that counts some of their keys.

    Args:
        writer: takes everything.
    """

    def __init__(self, writer: Any) -> None:
        self._writer: Writer = writer
        self._columns = writer
        self._heavy = HeavyKeys(HOT_SHARE)
        self._single = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def begin(self) -> None:
        """Begin an epoch."""
        self._heavy = HeavyKeys(HOT_SHARE)

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._single += 1
        if self._single % EVERY == 0:
            self._see([element.value], EVERY)
        self._writer.process(element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        step = -(-len(values) // LOOKS)
        if step:
            self._see(values[self._offset(step) :: step], step)
        self._writer.write(values, meta)

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        size = len(values)
        step = -(-size // LOOKS)
        if step:
            looks = range(self._offset(step), size, step)
            for place in looks:
                self._see(values.slice(place, place + 1).objects(), step)
        self._columns.write_columns(values, meta)

    def flush(self) -> None:
        """Ship what is held."""
        self._writer.flush()

    def _offset(self, step: int) -> int:
        """Begin elsewhere in each batch."""
        self._single += EVERY
        return self._single % step

    def _see(self, pairs: Any, stands_for: int) -> None:
        counts: dict[str, int] = {}
        for pair in pairs:
            name = shown_key(pair[0])
            counts[name] = counts.get(name, 0) + stands_for
        self._heavy.see(counts)

    def shares(self) -> Shares:
        """Give about how many elements went by in this epoch, and the hot keys among them."""
        return Shares(self._heavy.total, dict(self._heavy.found))
