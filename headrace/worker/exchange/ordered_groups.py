"""Writes the input of a grouping with order numbers: plain pairs in bulk, all else as rows.

What came first is shipped first, so that the rows of one writer never overlap by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from headrace.plan.order import PortOrder
from headrace.worker.batched.batches import Columns, Meta
from headrace.worker.beam_types import Element, Value, Windows
from headrace.worker.exchange.fill import Fill
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.order_numbers import Numberer, Numbers, joined, pack
from headrace.worker.exchange.ordered_writer import OrderedWriter, causes
from headrace.worker.exchange.pair_runs import (
    LONGER,
    MOST_PAIRS,
    Index,
    Name,
    Spans,
    dealt,
    pack_run,
)
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import Send


class OrderedGroupWriter:
    """Collects plain pairs with their numbers and ships them in bulk.

    Args:
        channel: where they go.
        rows: writes what is not plain.
        pairs: says what is.
        shard_of: says where a key goes; None: all go to the first shard of `shards`.
        shards: to which the rows go.
        by_window: whether windows are told; else there is but the global one.
        send: takes the rows.
        order: how numbers are made.
        super_tuple_bytes: size of a row.
    """

    def __init__(
        self,
        channel: int,
        rows: OrderedWriter,
        pairs: PlainPairs,
        shard_of: ShardOf | None,
        shards: range,
        send: Send,
        *,
        by_window: bool,
        order: PortOrder,
        super_tuple_bytes: int,
    ) -> None:
        self._channel, self._rows, self._pairs = channel, rows, pairs
        self._shard_of, self._shards, self._send = shard_of, shards, send
        self._by_window = by_window
        self._width = order.number_bytes
        self._numberer = Numberer(order)
        self._fill = Fill(super_tuple_bytes * LONGER * len(shards), MOST_PAIRS)
        self._seq = 0
        self._sets: list[Spans] = []  # of windows
        self._numbers_of_sets: dict[Windows, int] = {}  # which set it is
        self._forget()

    def _forget(self) -> None:
        self._index = Index()  # of keys, or of sets of windows and keys
        self._places: list[int] = []
        self._values: list[Value] = []
        self._numbers: list[Numbers] = []

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self.write([element.value], element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        numbers = self._numberer.each(causes(values, meta))
        found = self._pairs.all_of(values)
        if found is None:
            self._ship()
            self._rows.put(values, meta, numbers)
            return
        self._rows.ship()
        names: Iterable[Value] = found.keys
        if self._by_window:
            names = zip(self._each_set(len(values), meta), found.keys, strict=True)
        self._places += map(self._index.__getitem__, names)
        self._values += found.values
        self._numbers.append(numbers)
        if self._fill.is_full(len(self._values), found.size):
            self._ship()

    def _each_set(self, size: int, meta: Meta) -> list[int]:
        """Give the set of windows of each pair; neighbours mostly share theirs."""
        if type(meta) is not Columns:
            return [self._set_of(meta.windows)] * size
        found, last, its = [], None, 0
        for windows in meta.windows:
            if windows is not last:
                last, its = windows, self._set_of(windows)
            found.append(its)
        return found

    def _set_of(self, windows: Windows) -> int:
        windows = tuple(windows)
        found = self._numbers_of_sets.get(windows)
        if found is None:
            found = self._numbers_of_sets[windows] = len(self._sets)
            self._sets.append(
                tuple([(w._start_micros, w._end_micros) for w in windows])  # type: ignore[attr-defined]  # noqa: SLF001 (intervals)
            )
        return found

    def _names(self) -> list[Name]:
        if not self._by_window:
            return [(None, key) for key in self._index]
        return [(self._sets[number], key) for number, key in self._index]

    def _ship(self) -> None:
        if not self._values:
            return
        names = self._names()
        places = np.array(self._places, np.uint32)
        values, numbers = self._values, joined(self._numbers)
        if self._shard_of is None:
            total = self._emit(self._shards[0], names, places, values, numbers)
        else:
            total = 0
            owners = self._shard_of.each([key for _, key in names])
            for shard, its, at, mine in dealt(names, places, owners):
                total += self._emit(
                    shard, its, at, list(compress(values, mine)), list(compress(numbers, mine))
                )
        self._fill.shipped(len(values), total)
        self._forget()

    def _emit(
        self, shard: int, names: list[Name], places: NDArray[np.uint32], values: list[Value],
        numbers: Numbers,
    ) -> int:
        payload = pack_run(names, places, values)
        self._send(
            SuperTuple(
                shard, Rank.DATA, self._channel, PayloadKind.NUMBERED_PAIRS, self._seq,
                len(values), payload, pack(numbers, self._width),
            )
        )
        self._seq += len(values)
        return len(payload)

    def flush(self) -> None:
        """Ship what is held."""
        self._ship()
        self._rows.flush()
        self._numberer.forget()
        self._sets.clear()
        self._numbers_of_sets.clear()
