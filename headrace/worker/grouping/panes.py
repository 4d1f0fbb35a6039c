"""Groups a stream by key and window, where each window fires once, at its end.

This is the fast path: the default trigger without allowed lateness, in the global window and in
interval windows that do not merge. A window's groups leave when the watermark passes its end.
What waits lies in the store, ordered by window end, so an epoch costs what it touches and what it
fires, not what waits. `choose` knows the other ways.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from headrace.errors import StateError
from headrace.plan.lateness import is_over
from headrace.plan.slices import Slices
from headrace.state import layout
from headrace.state.layout import Kind
from headrace.state.store import Store
from headrace.worker.batched.batches import Meta
from headrace.worker.beam_types import Key, Value, WindowedCoder, Windowing
from headrace.worker.exchange.grouping_kind import grouping_of
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.bounded import GROUPS_AT_ONCE, OBJECT_BYTES, Push, in_batches, taken
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.grouping.column_tables import ColumnTables, Merging, Tables
from headrace.worker.grouping.grouper import (
    MAX_MICROS,
    MIN_MICROS,
    Compact,
    StreamGrouper,
    first_time,
    held_at,
)
from headrace.worker.grouping.spill import HeldChunk, SpilledValues
from headrace.worker.grouping.tables import TableGrouper, push_groups
from headrace.worker.grouping.value_bytes import ValueBytes
from headrace.worker.grouping.window_batches import push_columns

#: Packed bytes of one key's values in a window that are made objects at once; of more than these
#: one row is, the values of one epoch. Objects take some ten times as much.
LAZY_BYTES = 8 << 20


class _Waiting(NamedTuple):
    """What lies in the store for one key of one window."""

    span: Span
    key: Key  # as it stands in a table
    values: list[Value] | SpilledValues  # the latter where there are too many for the memory


class _StoredChunk(NamedTuple):
    """The values of one row, read when they are asked for; see `spill.Chunk`."""

    store: Store
    row: bytes
    decode: Callable[[bytes], list[Value]]

    def load(self) -> bytes:
        """Give the packed values."""
        data = self.store.get(self.row)
        if data is None:
            msg = "the values of a group were read after its pane was over; copy them to keep them"
            raise StateError(msg)
        return _read(self.row, data)[1]

    @property
    def values(self) -> int:
        """How many there are."""
        return len(self.decode(self.load()))


class WindowTables(StreamGrouper):
    """Default trigger, no lateness: tables of this epoch in memory, those of older ones as rows.

    A row is (window end, key group, window start, key, number): the values of one epoch. Rows are
    only appended; they are read once, when their window fires, one key after the other. With
    `compact` there is one row per key and window, read and written anew when the key is touched.
    """

    def __init__(
        self,
        stage: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        memory_bytes: int,
        compact: Compact | None = None,
        slices: Slices | None = None,
        *,
        merging: Merging | None = None,
    ) -> None:
        kv = windowed_coder.wrapped_value_coder
        path = grouping_of(windowing)
        intake = make_grouper(
            windowed_coder, windowing, path, sys.maxsize, slices, merging=merging
        )
        if not isinstance(intake, TableGrouper):
            msg = f"{windowing} needs the general path"
            raise TypeError(msg)
        self._intake = intake
        self._values = ValueBytes(kv.value_coder())
        self._key_group_of = ShardOf(kv.key_coder(), layout.KEY_GROUPS).any
        self._stage = stage
        self._memory = memory_bytes
        self._compact = compact
        # What is combined is small, and slices are put together in memory.
        self._lazy = LAZY_BYTES if compact is None and slices is None else sys.maxsize
        self._counter_row = layout.name(
            Kind.META, stage, layout.any_key_group(b"panes"), layout.part(b"panes")
        )
        self._tables: Tables = {}
        self._used = 0
        self._spent: list[bytes] = []  # rows whose values are being handed on
        self._loaded = 0  # packed bytes of those values
        self._watermark = MIN_MICROS

    def attach(self, store: Store, watermark: int, now: int = 0) -> None:  # noqa: ARG002 (processing time matters to no window here)
        """Begin an epoch."""
        self._store = store
        self._watermark = watermark
        self._intake.take()
        self._tables = {}
        self._used = 0
        self._spent, self._loaded = [], 0
        self.dropped = 0

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""
        self._intake.add(kind, count, payload)
        self._used += len(payload) + count * OBJECT_BYTES
        if self._used >= self._memory:
            self.flush()  # packed values take a fraction of what objects take

    def advance(self, watermark: int, now: int, push: Push) -> None:  # noqa: ARG002 (the same)
        """Hand on every window whose end the watermark has passed, in the order of their ends."""
        if watermark > self._watermark:
            self._emit_columns(watermark, push)
        self._collect()
        if watermark <= self._watermark:
            return  # what was due then has left, and what came since waits for more
        self._watermark = watermark
        due = sorted((span for span in self._tables if span[1] <= watermark), key=_by_end)
        due.reverse()
        waiting = self._stored(*layout.until(Kind.GROUP, self._stage, watermark))
        for end, rows in groupby(waiting, key=lambda found: found.span[1]):
            while due and due[-1][1] < end:
                self._emit_table(due.pop(), push)
            for span, of_span in groupby(rows, key=itemgetter(0)):
                self._hand_on(self._merged(span, of_span), self._intake.pane(span), push)
        while due:
            self._emit_table(due.pop(), push)

    def _emit_columns(self, watermark: int, push: Push) -> None:
        """Hand on what is due as columns, if all of it came in this epoch, and so."""
        columns = None if self._tables else self._intake.columns_for(push)
        if columns is None or self._waits(watermark):
            return  # windows leave in the order of their ends, and some of these are objects
        self._leave_out_late(columns)
        due = columns.only(lambda span: span[1] <= watermark)
        if due.merging is None:
            push_groups(due.by_span(), self._intake.pane, push)
            columns.keep(lambda span: span[1] > watermark)
            return
        merged = due.merged() if due else {}
        if merged:
            spans = sorted(merged, key=_by_end)
            push_columns(((span, merged[span]) for span in spans), self._intake.pane, push)
            columns.keep(lambda span: span[1] > watermark)

    def _leave_out_late(self, columns: ColumnTables) -> None:
        late = {span for span in columns.rows() if is_over(span[1] - 1, self._watermark)}
        self.dropped += sum(count for span, count in columns.rows().items() if span in late)
        columns.keep(lambda span: span not in late)

    def _waits(self, watermark: int) -> bool:
        """Whether something in the store is due."""
        rows = self._store.scan(*layout.until(Kind.GROUP, self._stage, watermark))
        return next(iter(rows), None) is not None

    def hold(self) -> int:
        """Give the last moment of the first window that waits."""
        ends = [span[1] for span in self._tables]
        stored = first_time(self._store, Kind.GROUP, self._stage)
        if stored is not None:
            ends.append(stored)
        return held_at(min(ends) - 1) if ends else MAX_MICROS

    def next_wakeup(self) -> int | None:
        """Say that processing time matters to no window here."""
        return None

    def flush(self) -> None:
        """Write what waits."""
        self._collect()
        if self._tables:
            if self._compact is not None:
                self._rewrite(self._compact)
            else:
                self._append()
        self._tables = {}
        self._used = 0

    def _collect(self) -> None:
        """Take over what came in, without what came too late."""
        self._take_over(self._intake.take())

    def _take_over(self, tables: Tables) -> None:
        for span, table in tables.items():
            if is_over(span[1] - 1, self._watermark):
                self.dropped += sum(map(len, table.values()))
                continue
            known = self._tables.setdefault(span, table)
            if known is not table:
                for key, values in table.items():
                    known.setdefault(key, []).extend(values)

    def _emit_table(self, span: Span, push: Push) -> None:
        real = self._intake.real_key
        pairs = ((real(key), values) for key, values in taken(self._tables.pop(span)))
        in_batches(pairs, self._intake.pane(span), push)

    def _merged(self, span: Span, rows: Iterator[_Waiting]) -> Iterator[tuple[Key, list[Value]]]:
        """Give the keys of a window that have rows, with what this epoch brought them."""
        table = self._tables.get(span, {})
        real = self._intake.real_key
        for _, key, values in rows:
            fresh = table.pop(key, None)
            if fresh is not None:
                if isinstance(values, list):
                    values += fresh
                else:
                    values.more(HeldChunk(self._values.encode(fresh), len(fresh)))
            yield real(key), values

    def _stored(self, start: bytes, end: bytes) -> Iterator[_Waiting]:
        """Take the rows of a range away, all rows of a key at once."""
        delete, decode = self._store.delete, self._values.decode
        for stem, rows in groupby(self._store.scan(start, end), key=_stem):
            values: list[Value] = []
            names: list[bytes] = []
            encoded, size = b"", 0
            for row, data in rows:
                encoded, packed = _read(row, data)
                size += len(packed)
                names.append(row)
                if size <= self._lazy:
                    values += decode(packed)
            span = layout.moment(stem[_START]), layout.moment(stem[_END])
            key = self._intake.table_key(encoded)
            self._loaded += size
            if size <= self._lazy:
                for row in names:
                    delete(row)
                yield _Waiting(span, key, values)
            else:  # read row by row, as often as user code asks; until then they stay
                self._spent += names
                chunks = [_StoredChunk(self._store, row, decode) for row in names]
                yield _Waiting(span, key, SpilledValues(chunks, decode))

    def _hand_on(self, groups: Iterator[Value], meta: Meta, push: Push) -> None:
        """Hand stored groups on, as many at a time as memory is meant to hold."""
        batch: list[Value] = []
        for group in groups:
            batch.append(group)
            if len(batch) >= GROUPS_AT_ONCE or self._loaded >= LAZY_BYTES:
                push(batch, meta)
                batch = []
                self._forget_spent()
        if batch:
            push(batch, meta)
            self._forget_spent()

    def _forget_spent(self) -> None:
        """Take away the rows of values that were handed on."""
        for row in self._spent:
            self._store.delete(row)
        self._spent, self._loaded = [], 0

    def _named(self) -> Iterator[tuple[bytes, bytes, list[Value]]]:
        """Give for every key of every window how its rows begin, what stands before the values."""
        key_bytes, real = self._intake.key_bytes, self._intake.real_key
        key_group_of = self._key_group_of
        for (start, end), table in self._tables.items():
            first = layout.head(Kind.GROUP, self._stage) + layout.stamp(end)
            begin = layout.stamp(start)
            for key, values in table.items():
                encoded = key_bytes(key)
                part = layout.part(encoded)
                before = b"" if len(encoded) <= layout.MAX_PART_BYTES else _whole(encoded)
                key_group = key_group_of(real(key)).to_bytes(_KEY_GROUP_BYTES, "big")
                yield first + key_group + begin + part, before, values

    def _append(self) -> None:
        number = self._next_number().to_bytes(_NUMBER_BYTES, "big")
        put, encode = self._store.put, self._values.encode
        for stem, before, values in self._named():
            put(stem + number, before + encode(values))

    def _rewrite(self, compact: Compact) -> None:
        put, get, values_of = self._store.put, self._store.get, self._values
        for stem, before, values in self._named():
            row = stem + _ONLY_NUMBER
            old = get(row)
            if old is not None:
                values = values_of.decode(_read(row, old)[1]) + values
            put(row, before + values_of.encode(compact(values)))

    def _next_number(self) -> int:
        """Give a number that no row has; kept by the shard.

        A shard that was cut anew has rows but no counter: then the rows are asked, once.
        """
        known = self._store.get(self._counter_row)
        if known is None:
            rows = self._store.scan(*layout.under(layout.head(Kind.GROUP, self._stage)))
            number = max((_number(row) for row, _ in rows), default=-1) + 1
        else:
            number = int.from_bytes(known, "big")
        self._store.put(self._counter_row, (number + 1).to_bytes(_NUMBER_BYTES, "big"))
        return number


# Where the parts of a row's name stand: kind and stage, end, key group, start, key, number.
_END = slice(3, 11)
_KEY_GROUP_BYTES = 4
_START = slice(15, 23)
_KEY_AT = 23
_NUMBER_BYTES = 8
_ONLY_NUMBER = bytes(_NUMBER_BYTES)
_LENGTH_BYTES = 4


def _by_end(span: Span) -> Span:
    return span[1], span[0]


def _stem(row: tuple[bytes, bytes]) -> bytes:
    return row[0][:-_NUMBER_BYTES]


def _number(row: bytes) -> int:
    return int.from_bytes(row[-_NUMBER_BYTES:], "big")


def _whole(encoded: bytes) -> bytes:
    """Give how a key that is too long for a name stands before its values."""
    return len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded


def _read(row: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Give the key of a row and its packed values."""
    if row[_KEY_AT] <= layout.MAX_PART_BYTES:
        return row[_KEY_AT + 1 : -_NUMBER_BYTES], data
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    return data[_LENGTH_BYTES:end], data[end:]
