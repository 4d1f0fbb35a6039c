"""What every grouping of a bounded input shares: keys, a memory bound, spilling to disk.

Takes super tuples, gives windowed (key, values) at the end of the input. Values that outgrow the
memory they are given go to disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from headrace.errors import TransportError
from headrace.plan.shapes import RecordShape
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.plain_values import FAITHFUL, scalar_types, tuple_check
from headrace.worker.beam_types import Element, Encode, Key, Value, WindowedCoder, Windowing
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.super_tuples import PayloadKind
from headrace.worker.grouping.spill import CHUNK_BYTES, CHUNK_VALUES, SpilledValues, SpillRuns

#: What a small Python object costs beside its encoded bytes; used to bound memory, not to measure.
OBJECT_BYTES = 56
#: Groups handed to the stage at once: few, as one group may be large.
GROUPS_AT_ONCE = 256

Push = Callable[[list[Value], Meta], None]

coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(SpilledValues)


class BoundedGrouper(ABC):
    """What all paths share: keys, memory bound, spilling."""

    dropped = 0  # nothing is late before the end of the input

    def __init__(
        self, windowed_coder: WindowedCoder, windowing: Windowing, memory_bytes: int
    ) -> None:
        kv = windowed_coder.wrapped_value_coder
        self._windowing = windowing
        self._key_coder, self._value_coder = kv.key_coder(), kv.value_coder()
        self._key_impl = self._key_coder.get_impl()
        self._value_impl = self._value_coder.get_impl()
        self._windowed_impl = coders.WindowedValueCoder(
            self._value_coder, windowed_coder.window_coder
        ).get_impl()
        self._key_types = scalar_types(self._key_coder) & FAITHFUL
        self._key_tuple = tuple_check(self._key_coder, FAITHFUL)
        self._memory = memory_bytes
        self._used = 0
        self._runs = SpillRuns()

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""
        if kind == PayloadKind.KEYED_ROWS:
            self._add_rows(payload)
        elif kind == PayloadKind.GROUPED:
            self._add_grouped(payload)
        elif kind == PayloadKind.GROUPED_WINDOWED:
            self._add_windowed(payload)
        elif kind == PayloadKind.GROUPED_SPANS:
            self._add_spans(payload)
        elif kind == PayloadKind.MERGED_ROWS:
            self._add_merged(payload)
        elif kind == PayloadKind.KEYED_COLUMNS:
            self._add_columns(payload)
        else:
            msg = f"a grouping was sent a payload of kind {kind}"
            raise TransportError(msg)
        self._used += len(payload) + count * OBJECT_BYTES
        if self._used >= self._memory:
            self._runs.write(self._drain())
            self._used = 0

    def advance(self, watermark: int, now: int, push: Push) -> None:  # noqa: ARG002 (both at the end)
        """The input is whole: hand on every group."""
        self.emit(push)

    def hold(self) -> int:
        """Nothing waits any longer."""
        return int(MAX_TIMESTAMP.micros)

    def next_wakeup(self) -> int | None:
        """Nothing is due later."""
        return None

    def emit(self, push: Push) -> None:
        """Hand every group to `push`, once, in batches."""
        if self._runs:
            self._runs.write(self._drain())
            self._emit_spilled(push)
        else:
            self._emit_memory(push)

    def _add_rows(self, payload: bytes) -> None:
        stream = create_InputStream(payload)
        decode = self._windowed_impl.decode_from_stream
        while stream.size() > 0:
            encoded = stream.read_all(True)
            self._add_row(encoded, decode(stream, True))

    def table_key(self, encoded: bytes) -> Key:
        """Give what stands for the key in a table: the key itself if faithful, else its bytes."""
        key = self._key_impl.decode(encoded)
        kind = type(key)
        if kind in self._key_types or (kind is tuple and self._key_tuple and self._key_tuple(key)):
            return key
        return Opaque(encoded)

    def table_keys(self, keys: ColumnValues) -> list[Key]:
        """Give what stands for keys that came as columns: they are faithful, or records."""
        if isinstance(keys.shape, RecordShape):
            return [Opaque(bytes(self._key_impl.encode(key))) for key in keys.objects()]
        return keys.objects()

    def key_bytes(self, key: Key) -> bytes:
        """Encode a key of a table."""
        return key.encoded if type(key) is Opaque else bytes(self._key_impl.encode(key))

    def real_key(self, key: Key) -> Key:
        """Give the key that a key of a table stands for."""
        return self._key_impl.decode(key.encoded) if type(key) is Opaque else key

    def _encode_values(self, values: list[Value]) -> Iterator[tuple[int, bytes]]:
        return chunks_of(values, self._value_impl.encode_to_stream)

    def _decode_values(self, data: bytes) -> Iterator[Value]:
        stream = create_InputStream(data)
        while stream.size() > 0:
            yield self._value_impl.decode_from_stream(stream, True)

    def _add_grouped(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of grouped values came without the windows they belong to"
        raise TransportError(msg)

    def _add_windowed(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of values came by window to a grouping that has no such table"
        raise TransportError(msg)

    def _add_spans(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of values came by span to a grouping that merges no windows"
        raise TransportError(msg)

    def _add_merged(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of merged accumulators came to a grouping of elements"
        raise TransportError(msg)

    def _add_columns(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of columns came to a grouping that has no table for them"
        raise TransportError(msg)

    @abstractmethod
    def _add_row(self, encoded_key: bytes, element: Element) -> None:
        """Take one element."""

    @abstractmethod
    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        """Give all groups in name order and forget them."""

    @abstractmethod
    def _emit_memory(self, push: Push) -> None:
        """Hand on the groups that are in memory, where all of them are."""

    @abstractmethod
    def _emit_spilled(self, push: Push) -> None:
        """Hand on the groups that were written to disk."""


def chunks_of(
    values: list[Value], encode: Encode
) -> Iterator[tuple[int, bytes]]:
    """Encode values in chunks that are small in number and in bytes; empties the list."""
    values.reverse()  # taken from its end, so that what is written is freed at once
    while values:
        out, count = create_OutputStream(), 0
        while values and count < CHUNK_VALUES and out.size() < CHUNK_BYTES:
            encode(values.pop(), out, True)
            count += 1
        yield count, out.get()


class Opaque:
    """A key whose Python equality is not the equality of its encoding."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded

    def __eq__(self, other: object) -> bool:
        return type(other) is Opaque and other.encoded == self.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)


def taken(table: dict[Key, Value]) -> Iterator[tuple[Key, Value]]:
    """Empty a table while reading it, so that groups are freed as soon as they are used.

    They leave in the order in which their keys came, as Beam's local runner has it: no promise, but
    what one shard gives can be told beforehand.
    """
    keys, values = list(table), list(table.values())
    table.clear()
    keys.reverse()
    values.reverse()
    while keys:
        yield keys.pop(), values.pop()


def in_batches(groups: Iterator[Value], meta: Meta, push: Push) -> None:
    """Hand on groups that share time, window and pane, some at a time."""
    while batch := list(islice(groups, GROUPS_AT_ONCE)):
        push(batch, meta)
