"""Writes the input of a grouping into super tuples: keys with the lists of their values.

What is plain travels in bulk, all else as rows. How many elements are held before they are shipped
adapts to their size.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream

from headrace.worker.batched.batches import Columns, Meta, elements, pick
from headrace.worker.batched.column_batches import as_rows
from headrace.worker.batched.column_combining import owned
from headrace.worker.batched.weights import HEAVY_BYTES, WAITING_BYTES, weight
from headrace.worker.beam_types import Coder, Element, Key, Value, WindowedCoder, Windows
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.key_columns import KeyColumns
from headrace.worker.exchange.keyed_columns import HeldColumns
from headrace.worker.exchange.keys import ShardOf, deal
from headrace.worker.exchange.merging import Combining, Merging
from headrace.worker.exchange.pair_columns import Bulk, bulk_pairs, dealt
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import Send

#: Elements a grouping writer holds before it ships them. With a quarter of it the lists per key get
#: short, which costs a grouping by 10 K keys 10 % of its speed.
MAX_HELD_ELEMENTS = 400_000
#: So few pairs cost more as Arrow columns than as objects: a batch has a fixed price.
FEW_ROWS = 256


class GroupWriter:
    """Collects elements per key (and windows) and ships plain ones in bulk.

    What is not plain is encoded at once, as it may be changed by its maker later on.
    """

    def __init__(
        self,
        channel: int,
        windowed_coder: WindowedCoder,
        grouping: Grouping,
        send: Send,
        *,
        shards: int,
        super_tuple_bytes: int,
        fixed_shard: int | None = None,
        sliced: bool = False,
        spans: bool = False,
        combining: Combining | None = None,
    ) -> None:
        """Describe a writer.

        Args:
            channel: where the super tuples go.
            windowed_coder: of the pairs.
            grouping: how they are grouped.
            send: takes super tuples.
            shards: among how many the keys are divided.
            super_tuple_bytes: what a super tuple should have.
            fixed_shard: where all of it goes; None: each key to its own.
            sliced: the reader keeps slices of windows.
            spans: a `GENERAL` grouping needs only the bounds of windows, see `spans_suffice`.
            combining: how values are merged, where they are accumulators.
        """
        kv_coder = windowed_coder.wrapped_value_coder
        self._key_coder, value_coder = kv_coder.key_coder(), kv_coder.value_coder()
        self._key_encode = self._key_coder.get_impl().encode
        self._channel = channel
        self._send = send
        self._shards = shards
        self._shard_of = ShardOf(self._key_coder, shards)
        self._fixed = fixed_shard
        # Grouping before the exchange pays only if many elements of a key meet here.
        self._target_bytes = super_tuple_bytes * max(16, 4 * shards)
        self._limit = 1_000  # grows or shrinks to what fills `_target_bytes`
        self._held = 0
        self._held_bytes = 0  # of texts and the like; numbers are bounded by `limit`
        self._seq = 0
        self._grouping = grouping
        self._spans = grouping is Grouping.SESSIONS or (spans and grouping is Grouping.GENERAL)
        #: Whether one accumulator may stand for several windows: the reader keeps slices.
        self.shares_windows = sliced and grouping is Grouping.INTERVALS
        self._windowed_value = coders.WindowedValueCoder(
            value_coder, windowed_coder.window_coder
        ).get_impl()
        #: Given where values are accumulators of single elements.
        self.merging = (
            Merging(combining, self._key_coder, self._windowed_value, shards)
            if combining is not None and grouping is Grouping.GENERAL
            else None
        )
        self._streams = [create_OutputStream() for _ in range(shards)]
        self._counts = [0] * shards
        self._row_limit = super_tuple_bytes
        self._table: dict[Key, Value] = {}
        self._columns = HeldColumns(self._shard_of, shards, fixed_shard)
        self._deal = partial(deal, self._shard_of, shards, fixed_shard)
        self._build(value_coder)

    def _build(self, value_coder: Coder) -> None:
        self._pairs = pairs = PlainPairs(self._key_coder, value_coder)
        keys = KeyColumns(self._key_coder)
        self._bulk = Bulk(keys, value_coder, pairs.value_types, pairs.value_list)
        #: Whether pairs may come as columns; where windows merge, each row is looked at.
        by_table = self._grouping in (Grouping.GLOBAL, Grouping.INTERVALS)
        self.takes_columns = bool(keys) and by_table
        self._write: Callable[[list[Value], Meta], None] = self._write_rows
        if not pairs:
            return
        if self._spans:
            self._write = self._write_spans
        elif self._grouping is Grouping.GLOBAL:
            self._table = defaultdict(list)
            self._write = self._write_global
        elif self._grouping is Grouping.INTERVALS:
            self._write = self._write_windowed

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self.write([element.value], element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        if self._columns:
            self._ship_columns()  # they came before
        if self.merging is None or not self.merging.takes(values, meta):
            self._write(values, meta)
        elif self.merging.is_full:
            self._ship_merged(self.merging)

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns; pairs that may travel in bulk are sent as columns."""
        found = bulk_pairs(values, meta, self._bulk)
        if found is None:
            for rows, its in as_rows(values, meta):
                self.write(rows, its)
            return
        pairs, size = found
        if not self._columns.goes_with(pairs):
            self._ship_columns()
        if self._held and not self._columns:
            self._ship()  # they came before
        self._held += len(values)
        self._held_bytes += size
        self._columns.add(pairs if self._is_full() else owned(pairs))
        if self._is_full():
            self._ship_columns()

    def _ship_columns(self) -> None:
        is_global = self._grouping is Grouping.GLOBAL
        if self._columns.rows < FEW_ROWS and not self._columns.of_records:
            for windows, groups in dealt(self._columns.take(), by_window=not is_global):
                table = self._table if is_global else self._window_table(windows)
                for key, more in groups:
                    table[key] += more
            self._ship()
            return
        total = 0
        for shard, count, payload in self._columns.parcels(by_window=not is_global):
            total += len(payload)
            self._emit(shard, PayloadKind.KEYED_COLUMNS, count, payload)
        self._adapt(total)

    def _ship(self) -> None:
        if self._grouping is Grouping.GLOBAL:
            self._ship_global()
        elif self._spans:
            self._ship_spans()
        else:
            self._ship_windowed()

    def _write_rows(self, values: list[Value], meta: Meta) -> None:
        for element in elements(values, meta):
            self._row(element)

    def _all_plain(self, values: list[Value]) -> Iterable[Value] | None:
        """Give the pairs of a batch if all of them may travel in bulk; else None."""
        found = self._pairs.all_of(values)
        if found is None:
            return None
        self._held_bytes += found.size
        return zip(found.keys, found.values, strict=True)

    def _plain(self, pair: Value) -> Value:
        """Give the pair if it may travel in bulk."""
        size = weight((pair,))
        if size >= HEAVY_BYTES:
            return None
        self._held_bytes += size
        return self._pairs.one(pair)

    def _write_global(self, values: list[Value], meta: Meta) -> None:
        table = self._table
        plain_pairs = self._all_plain(values)
        if plain_pairs is not None:
            for key, value in plain_pairs:
                table[key].append(value)
            self._held += len(values)
        else:
            for i, pair in enumerate(values):
                plain = self._plain(pair)
                if plain is None:
                    for element in elements([pair], pick(meta, [i])):
                        self._row(element)
                else:
                    table[plain[0]].append(plain[1])
                    self._held += 1
        if self._is_full():
            self._ship_global()

    def _write_windowed(self, values: list[Value], meta: Meta) -> None:
        every = meta.windows if type(meta) is Columns else None
        if every is None:
            table = self._window_table(meta.windows)
        sure = self._all_plain(values)
        last: Windows | None = None
        for i, pair in enumerate(values if sure is None else sure):
            plain = pair if sure is not None else self._plain(pair)
            if plain is None:
                for element in elements([pair], pick(meta, [i])):
                    self._row(element)
                continue
            if every is not None and every[i] is not last:
                last = every[i]
                table = self._window_table(last)
            table[plain[0]].append(plain[1])
            self._held += 1
        if self._is_full():
            self._ship_windowed()

    def _write_spans(self, values: list[Value], meta: Meta) -> None:
        every = meta.windows if type(meta) is Columns else None
        last: Windows | None = None
        bounds = [] if every is not None else _bounds(meta.windows)
        table: dict[Key, tuple[list[int], list[int], list[Value]]] = self._table
        find = table.get
        sure = self._all_plain(values)
        for i, pair in enumerate(values if sure is None else sure):
            plain = pair if sure is not None else self._plain(pair)
            if plain is None:
                for element in elements([pair], pick(meta, [i])):
                    self._row(element)
                continue
            if every is not None and every[i] is not last:
                last = every[i]
                bounds = _bounds(last)
            key, value = plain
            held = find(key)
            if held is None:
                held = table[key] = ([], [], [])
            starts, ends, found = held
            for start, end in bounds:
                starts.append(start)
                ends.append(end)
                found.append(value)
            self._held += len(bounds)
        if self._is_full():
            self._ship_spans()

    def _is_full(self) -> bool:
        return self._held >= self._limit or self._held_bytes >= WAITING_BYTES

    def _window_table(self, windows: Windows) -> dict[Key, list[Value]]:
        windows = tuple(windows)
        found = self._table.get(windows)
        if found is None:
            found = self._table[windows] = defaultdict(list)
        return found

    def _ship_global(self) -> None:
        total = 0
        for shard, (keys, lists) in enumerate(self._deal(self._table)):
            if keys:
                payload = marshal.dumps((keys, lists), 2)
                total += len(payload)
                self._emit(shard, PayloadKind.GROUPED, sum(map(len, lists)), payload)
        self._table.clear()
        self._adapt(total)

    def _ship_windowed(self) -> None:
        per_shard: list[list[Value]] = [[] for _ in range(self._shards)]
        counts = [0] * self._shards
        for windows, table in self._table.items():
            spans = [
                (w._start_micros, w._end_micros)  # noqa: SLF001 (the public ones build objects)
                for w in windows
            ]
            for shard, (keys, lists) in enumerate(self._deal(table)):
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
        self._adapt(total)

    def _ship_spans(self) -> None:
        total = 0
        for shard, (keys, spans) in enumerate(self._deal(self._table)):
            if keys:
                payload = marshal.dumps((keys, spans), 2)
                total += len(payload)
                count = sum([len(starts) for starts, _, _ in spans])
                self._emit(shard, PayloadKind.GROUPED_SPANS, count, payload)
        self._table.clear()
        self._adapt(total)

    def _adapt(self, total: int) -> None:
        """Hold as many elements next time as fill the target size."""
        if total * 2 < self._target_bytes:
            self._limit = min(self._limit * 4, MAX_HELD_ELEMENTS)
        elif total > self._target_bytes * 2:
            self._limit = max(64, int(self._held * self._target_bytes / total))
        self._held = self._held_bytes = 0

    def _row(self, element: Element) -> None:
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

    def _ship_merged(self, merging: Merging) -> None:
        for shard, count, payload in merging.parcels(self._shard_of.any):
            self._emit(shard, PayloadKind.MERGED_ROWS, count, payload)

    def _emit(self, shard: int, kind: PayloadKind, count: int, payload: bytes) -> None:
        self._send(
            SuperTuple(shard, Rank.DATA, self._channel, kind, self._seq, count, payload)
        )
        self._seq += count

    def flush(self) -> None:
        """Ship what is held."""
        if self._columns:
            self._ship_columns()
        if self._held:
            self._ship()
        if self.merging is not None:
            self._ship_merged(self.merging)
        for shard in range(self._shards):
            self._ship_rows(shard)


def _bounds(windows: Windows) -> list[tuple[int, int]]:
    """Give the bounds of windows, cut to whole milliseconds as the coder of rows does."""
    return [
        (w._start_micros // 1_000 * 1_000, w._end_micros // 1_000 * 1_000)  # type: ignore[attr-defined]  # noqa: SLF001 (intervals)
        for w in windows
    ]
