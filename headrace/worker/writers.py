"""Writes a stage's output into super tuples, one writer per channel.

Takes windowed values, gives super tuples to a `send` function. Every writer has a `process` made for
its channel when it is built, so that no element asks again what kind of channel it travels on.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream

from headrace.worker.frames import MAX_TS, MIN_TS, PayloadKind, Rank, SuperTuple
from headrace.worker.primitives import FAITHFUL, PLAIN, ShardOf, scalar_types, tuple_check
from headrace.worker.windows import Grouping

Send = Callable[[SuperTuple], None]

#: Elements a grouping writer holds before it ships them; more would cost memory, not gain speed.
MAX_HELD_ELEMENTS = 100_000
#: Elements handed to a neighbouring stage at once.
LOCAL_BATCH_ELEMENTS = 1_000


class Writer(Protocol):
    """One channel's writer."""

    process: Callable[[Any], None]

    def flush(self) -> None:
        """Ship what is held."""


class Fanout:
    """Hands each element to the writers of several channels."""

    def __init__(self, writers: list[Writer]) -> None:
        self._writers = writers
        targets = [w.process for w in writers]

        def process(element: Any) -> None:
            for target in targets:
                target(element)

        self.process: Callable[[Any], None] = process

    def flush(self) -> None:
        """Ship what is held."""
        for writer in self._writers:
            writer.flush()


class LocalWriter:
    """Hands windowed values to a stage of the same superstep, as the objects they are."""

    def __init__(self, push: Callable[[list[Any]], None]) -> None:
        held: list[Any] = []
        append = held.append

        def process(element: Any) -> None:
            append(element)
            if len(held) >= LOCAL_BATCH_ELEMENTS:
                flush()

        def flush() -> None:
            if held:
                batch = held[:]
                held.clear()
                push(batch)

        self.process: Callable[[Any], None] = process
        self.flush = flush


class RowWriter:
    """Encodes windowed values one after the other; deals them out, keys them, or copies them."""

    def __init__(
        self,
        channel: int,
        windowed_coder: Any,
        send: Send,
        *,
        shards: int,
        first_shard: int,
        super_tuple_bytes: int,
        rank: Rank = Rank.DATA,
        shard_of: ShardOf | None = None,
        copy_to_all: bool = False,
    ) -> None:
        self._channel = channel
        self._send = send
        self._rank = rank
        self._seq = 0
        self._copies = range(shards) if copy_to_all else None
        self._encode = windowed_coder.get_impl().encode_to_stream
        self._limit = super_tuple_bytes
        width = 1 if copy_to_all else shards
        self._streams = [create_OutputStream() for _ in range(width)]
        self._counts = [0] * width
        self._min = [MAX_TS] * width
        self._max = [MIN_TS] * width
        if shard_of is not None:
            self.process: Callable[[Any], None] = self._keyed(shard_of)
        else:
            self.process = self._dealt(first_shard % width, width)

    def _dealt(self, first: int, width: int) -> Callable[[Any], None]:
        put = self._put
        turn = first

        def process(element: Any) -> None:
            nonlocal turn
            turn = turn + 1 if turn + 1 < width else 0
            put(turn, element)

        return process

    def _keyed(self, shard_of: ShardOf) -> Callable[[Any], None]:
        put, where = self._put, shard_of.any

        def process(element: Any) -> None:
            put(where(element.value[0]), element)

        return process

    def _put(self, slot: int, element: Any) -> None:
        stream = self._streams[slot]
        self._encode(element, stream, True)
        self._counts[slot] += 1
        ts = element.timestamp_micros
        if ts < self._min[slot]:
            self._min[slot] = ts
        if ts > self._max[slot]:
            self._max[slot] = ts
        if stream.size() >= self._limit:
            self._ship(slot)

    def _ship(self, slot: int) -> None:
        count = self._counts[slot]
        if not count:
            return
        payload = self._streams[slot].get()
        low, high = self._min[slot], self._max[slot]
        for shard in self._copies if self._copies is not None else (slot,):
            self._send(
                SuperTuple(
                    shard, self._rank, self._channel, PayloadKind.ROWS, self._seq, count, low,
                    high, payload,
                )
            )
        self._seq += count
        self._streams[slot] = create_OutputStream()
        self._counts[slot], self._min[slot], self._max[slot] = 0, MAX_TS, MIN_TS

    def flush(self) -> None:
        """Ship what is held."""
        for slot in range(len(self._streams)):
            self._ship(slot)


class GroupWriter:
    """Collects elements per key (and windows) and ships plain ones in bulk.

    What is not plain is encoded at once, as it may be changed by its maker later on.
    """

    def __init__(
        self,
        channel: int,
        windowed_coder: Any,
        grouping: Grouping,
        send: Send,
        *,
        shards: int,
        super_tuple_bytes: int,
        fixed_shard: int | None = None,
    ) -> None:
        kv_coder = windowed_coder.wrapped_value_coder
        self._key_coder, value_coder = kv_coder.key_coder(), kv_coder.value_coder()
        self._key_encode = self._key_coder.get_impl().encode
        self._channel = channel
        self._send = send
        self._shards = shards
        self._shard_of = ShardOf(self._key_coder, shards)
        self._fixed = fixed_shard
        self._target_bytes = super_tuple_bytes * max(4, shards)
        self._limit = 1_000  # grows or shrinks to what fills `target_bytes`
        self._held = 0
        self._seq = 0
        self._grouping = grouping
        self._windowed_value = coders.WindowedValueCoder(
            value_coder, windowed_coder.window_coder
        ).get_impl()
        self._streams = [create_OutputStream() for _ in range(shards)]
        self._counts = [0] * shards
        self._row_limit = super_tuple_bytes
        self._table: dict[Any, Any] = {}
        self._build(value_coder)

    def _build(self, value_coder: Any) -> None:
        key_types = scalar_types(self._key_coder) & FAITHFUL
        key_tuple = tuple_check(self._key_coder, FAITHFUL)
        value_types = scalar_types(value_coder)
        value_tuple = tuple_check(value_coder, PLAIN)
        if self._grouping is Grouping.GENERAL or not (key_types or key_tuple):
            self.process: Callable[[Any], None] = self._rows
        elif self._grouping is Grouping.GLOBAL:
            self.process = self._bulk_global(key_types, key_tuple, value_types, value_tuple)
        else:
            self.process = self._bulk_windowed(key_types, key_tuple, value_types, value_tuple)

    def _bulk_global(
        self, key_types: Any, key_tuple: Any, value_types: Any, value_tuple: Any
    ) -> Callable[[Any], None]:
        table: dict[Any, list[Any]] = defaultdict(list)
        self._table = table
        rows, flush = self._rows, self._ship_global
        held, limit = 0, self._limit

        def process(element: Any) -> None:
            nonlocal held, limit
            key, value = element.value
            kind = type(key)
            if not (kind in key_types or (kind is tuple and key_tuple and key_tuple(key))):
                rows(element)
                return
            kind = type(value)
            if kind in value_types or (kind is tuple and value_tuple and value_tuple(value)):
                table[key].append(value)
                held += 1
                if held >= limit:
                    limit = flush(held)
                    held = 0
            else:
                rows(element)

        def flush_rest() -> None:
            nonlocal held
            if held:
                flush(held)
                held = 0

        self._flush_bulk = flush_rest
        return process

    def _bulk_windowed(
        self, key_types: Any, key_tuple: Any, value_types: Any, value_tuple: Any
    ) -> Callable[[Any], None]:
        tables: dict[Any, dict[Any, list[Any]]] = {}
        self._table = tables
        rows, flush = self._rows, self._ship_windowed
        held, limit = 0, self._limit
        last_windows: Any = None
        last_table: dict[Any, list[Any]] = {}

        def process(element: Any) -> None:
            nonlocal held, limit, last_windows, last_table
            key, value = element.value
            kind = type(key)
            if not (kind in key_types or (kind is tuple and key_tuple and key_tuple(key))):
                rows(element)
                return
            kind = type(value)
            if not (kind in value_types or (kind is tuple and value_tuple and value_tuple(value))):
                rows(element)
                return
            windows = element.windows
            if windows != last_windows:  # runs of equal windows are the rule
                last_windows = windows
                windows = tuple(windows)
                found = tables.get(windows)
                if found is None:
                    found = tables[windows] = defaultdict(list)
                last_table = found
            last_table[key].append(value)
            held += 1
            if held >= limit:
                limit = flush(held)
                held = 0
                last_windows = None

        def flush_rest() -> None:
            nonlocal held, last_windows
            if held:
                flush(held)
                held = 0
                last_windows = None

        self._flush_bulk = flush_rest
        return process

    def _flush_bulk(self) -> None:
        """Ship the bulk table; replaced when there is one."""

    def _split(self, table: dict[Any, list[Any]]) -> list[tuple[list[Any], list[Any]]]:
        parts: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(self._shards)]
        if self._fixed is not None:
            parts[self._fixed] = (list(table), list(table.values()))
            return parts
        where = self._shard_of.faithful
        for key, values in table.items():
            keys, lists = parts[where(key)]
            keys.append(key)
            lists.append(values)
        return parts

    def _ship_global(self, held: int) -> int:
        total = 0
        for shard, (keys, lists) in enumerate(self._split(self._table)):
            if keys:
                payload = marshal.dumps((keys, lists), 2)
                total += len(payload)
                self._emit(shard, PayloadKind.GROUPED, sum(map(len, lists)), payload)
        self._table.clear()
        return self._next_limit(held, total)

    def _ship_windowed(self, held: int) -> int:
        per_shard: list[list[Any]] = [[] for _ in range(self._shards)]
        counts = [0] * self._shards
        for windows, table in self._table.items():
            spans = [
                (w._start_micros, w._end_micros)  # noqa: SLF001 (the public ones build objects)
                for w in windows
            ]
            for shard, (keys, lists) in enumerate(self._split(table)):
                if keys:
                    per_shard[shard].append((spans, keys, lists))
                    counts[shard] += sum(map(len, lists))
        total = 0
        for shard, groups in enumerate(per_shard):
            if groups:
                payload = marshal.dumps(groups, 2)
                total += len(payload)
                self._emit(shard, PayloadKind.GROUPED_WINDOWED, counts[shard], payload)
        self._table.clear()
        return self._next_limit(held, total)

    def _next_limit(self, held: int, total: int) -> int:
        if total * 2 < self._target_bytes:
            self._limit = min(self._limit * 4, MAX_HELD_ELEMENTS)
        elif total > self._target_bytes * 2:
            self._limit = max(64, int(held * self._target_bytes / total))
        return self._limit

    def _rows(self, element: Any) -> None:
        key, value = element.value
        shard = self._fixed if self._fixed is not None else self._shard_of.any(key)
        stream = self._streams[shard]
        stream.write(self._key_encode(key), True)
        self._windowed_value.encode_to_stream(element.with_value(value), stream, True)
        self._counts[shard] += 1
        if stream.size() >= self._row_limit:
            self._ship_rows(shard)

    def _ship_rows(self, shard: int) -> None:
        if self._counts[shard]:
            self._emit(
                shard, PayloadKind.KEYED_ROWS, self._counts[shard], self._streams[shard].get()
            )
            self._streams[shard] = create_OutputStream()
            self._counts[shard] = 0

    def _emit(self, shard: int, kind: PayloadKind, count: int, payload: bytes) -> None:
        self._send(
            SuperTuple(
                shard, Rank.DATA, self._channel, kind, self._seq, count, MIN_TS, MAX_TS, payload
            )
        )
        self._seq += count

    def flush(self) -> None:
        """Ship what is held."""
        self._flush_bulk()
        for shard in range(self._shards):
            self._ship_rows(shard)
