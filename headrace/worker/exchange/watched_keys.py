"""Looks at some of the keys that go to an exchange, so that a hot one can be named.

Stands before a channel's writer and hands everything on. Of each batch a few keys are looked at,
chosen by chance; together they stand for the batch. There only in runs that somebody watches.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from headrace.worker.batched.batches import Meta
from headrace.worker.batched.ends import Writer
from headrace.worker.beam_types import Element, Value
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.heavy_keys import HeavyKeys
from headrace.worker.exchange.merging import Shares, shown_key

#: Keys that are looked at in a batch: a thousand of them, from some batches, tell a share to 3 %.
LOOKS = 32
#: Elements that come one by one: every so many is looked at.
EVERY = 61  # a prime, so that hardly a rhythm of the data falls in with it
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
        self._chance = Random(0)  # the same looks in the same run, as far as batches are the same

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def begin(self) -> None:
        """Begin an epoch."""
        self._heavy = HeavyKeys(HOT_SHARE)

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._single += 1
        if self._single >= EVERY:
            self._see([element.value], self._single)
            self._single = 0
        self._writer.process(element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        self._see([values[place] for place in self._places(len(values))], len(values))
        self._writer.write(values, meta)

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        places = np.array(self._places(len(values)), dtype=np.int64)
        self._see(values.take(places).objects(), len(values))
        self._columns.write_columns(values, meta)

    def flush(self) -> None:
        """Ship what is held."""
        self._writer.flush()

    def _places(self, size: int) -> list[int]:
        """Choose which elements of a batch are looked at: by chance, as data may have a rhythm."""
        if size <= LOOKS:
            return list(range(size))
        chance = self._chance.random
        return [int(chance() * size) for _ in range(LOOKS)]

    def _see(self, pairs: Sequence[Value], stand_for: int) -> None:
        if not pairs:
            return
        counts: dict[str, int] = {}
        for pair in pairs:
            name = shown_key(pair[0])
            counts[name] = counts.get(name, 0) + 1
        each = stand_for / len(pairs)
        self._heavy.see({name: round(count * each) for name, count in counts.items()})

    def shares(self) -> Shares:
        """Give about how many elements went by in this epoch, and the hot keys among them."""
        return Shares(self._heavy.total, dict(self._heavy.found))
