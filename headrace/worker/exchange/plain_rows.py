"""Writes the input of a stateful step: plain pairs in bulk, all else as rows.

Plain pairs that share windows and pane travel together: these once, then the times where they
differ, the distinct keys, and for each element the place of its key and its value.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np
from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.utils import windowed_value
from numpy.typing import NDArray

from headrace.worker.batched.batches import Columns, Meta, in_millis
from headrace.worker.beam_types import Decode, Element, Pane, Value, WindowedCoder, Windows
from headrace.worker.exchange.fill import Fill
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.pair_runs import (
    LONGER,
    MOST_PAIRS,
    Index,
    Name,
    dealt,
    pack_run,
    unpack_run,
)
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import RowWriter, Send

#: So few elements are not worth a look.
FEW = 8


class _Shared(NamedTuple):
    """What all pairs of a row have in common."""

    time: int | None  # in microseconds; None: each has its own
    windows: Windows
    pane: Pane


class PlainRowWriter:
    """Collects plain pairs and ships them in bulk to the shards of their keys.

    Args:
        channel: where they go.
        windowed_coder: of the channel.
        rows: writes what is not plain.
        pairs: says what is.
        send: takes the rows.
        shards: how many there are.
        super_tuple_bytes: size of a row.
    """

    def __init__(
        self,
        channel: int,
        windowed_coder: WindowedCoder,
        rows: RowWriter,
        pairs: PlainPairs,
        send: Send,
        *,
        shards: int,
        super_tuple_bytes: int,
    ) -> None:
        self._channel, self._rows, self._pairs, self._send = channel, rows, pairs, send
        self._encode_to = windowed_coder.get_impl().encode_to_stream
        self._shard_of = ShardOf(windowed_coder.wrapped_value_coder.key_coder(), shards)
        self._shards = shards
        self._fill = Fill(super_tuple_bytes * LONGER * shards, MOST_PAIRS)
        self._seq = 0
        self._shared: _Shared | None = None
        self._forget()

    def _forget(self) -> None:
        self._index = Index()  # of keys
        self._places: list[int] = []
        self._values: list[Value] = []
        self._times: list[int] = []

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._ship()  # it came before
        self._rows.process(element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        shared = _shared(meta) if len(values) >= FEW else None
        found = None if shared is None else self._pairs.all_of(values)
        if found is None:
            self._ship()  # it came before
            self._rows.write(values, meta)
            return
        self._rows.flush()
        if shared != self._shared:
            self._ship()
            self._shared = shared
        self._places += map(self._index.__getitem__, found.keys)
        self._values += found.values
        if shared is not None and shared.time is None:
            self._times += meta.times
        if self._fill.is_full(len(self._values), found.size):
            self._ship()

    def _ship(self) -> None:
        if not self._values:
            return
        assert self._shared is not None
        keys, places, total = list(self._index), np.array(self._places, np.uint32), 0
        names: list[Name] = [(None, key) for key in keys]
        if self._shards == 1:
            total = self._emit(0, names, places, self._values, self._times)
        else:
            for shard, its, at, mine in dealt(names, places, self._shard_of.each(keys)):
                total += self._emit(
                    shard, its, at, list(compress(self._values, mine)),
                    list(compress(self._times, mine)),
                )
        self._fill.shipped(len(self._values), total)
        self._forget()

    def _emit(
        self, shard: int, names: list[Name], places: NDArray[np.uint32], values: list[Value],
        times: list[int],
    ) -> int:
        assert self._shared is not None
        time, windows, pane = self._shared
        first = (names[0][1], values[int(np.flatnonzero(places == 0)[0])])
        head = create_OutputStream()
        # As rows are written: a text that ends them has its length before it.
        self._encode_to(windowed_value.create(first, time or 0, windows, pane), head, True)
        own_times = None if time is not None else times
        payload = marshal.dumps((head.get(), own_times, pack_run(names, places, values)), 2)
        self._send(
            SuperTuple(
                shard, Rank.DATA, self._channel, PayloadKind.PLAIN_ROWS, self._seq, len(values),
                payload,
            )
        )
        self._seq += len(values)
        return len(payload)

    def flush(self) -> None:
        """Ship what is held."""
        self._ship()
        self._rows.flush()


def _shared(meta: Meta) -> _Shared | None:
    """Give what all elements of a batch share; None if they have windows or panes of their own."""
    if type(meta) is not Columns:
        return _Shared(meta.timestamp_micros, tuple(meta.windows), meta.pane_info)
    times, windows, panes, _ = meta
    size = len(windows)
    if windows.count(windows[0]) != size or panes.count(panes[0]) != size:
        return None
    time = times[0] if times.count(times[0]) == size else None
    return _Shared(time, tuple(windows[0]), panes[0])


def read_plain_rows(
    payload: bytes, decode: Decode, most: int
) -> Iterator[tuple[list[Value], Meta]]:
    """Give the pairs of a payload in batches of at most so many.

    Args:
        payload: of the kind `PLAIN_ROWS`.
        decode: reads a windowed value of the channel from a stream.
        most: elements of a batch.
    """
    head, times, packed = marshal.loads(payload)
    shared = decode(create_InputStream(head), True)
    run = unpack_run(packed)
    keys = [key for _, key in run.names]
    pairs = list(zip(map(keys.__getitem__, run.places), run.values, strict=True))
    for start in range(0, len(pairs), most):
        values = pairs[start : start + most]
        if times is None:
            yield values, shared
        else:
            size = len(values)
            yield values, in_millis(
                Columns(times[start : start + size], [shared.windows] * size,
                        [shared.pane_info] * size)
            )
