"""Groups what arrives on one shard by key and window, and hands the groups to the stage.

Takes super tuples, gives windowed (key, values) at the end of the input. Values that outgrow the
memory they are given go to disk. What path a grouping takes is decided in `windows`.
"""

from __future__ import annotations

import marshal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any

from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.transforms import trigger
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from headrace.errors import TransportError
from headrace.plan.slices import Slices
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.plain_values import FAITHFUL, scalar_types, tuple_check
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.super_tuples import PayloadKind
from headrace.worker.grouping.slices import Combination, Composer, slice_of, spans_of
from headrace.worker.grouping.spill import CHUNK_BYTES, CHUNK_VALUES, SpilledValues, SpillRuns

#: What a small Python object costs beside its encoded bytes; used to bound memory, not to measure.
OBJECT_BYTES = 56
#: Groups handed to the stage at once: few, as one group may be large.
GROUPS_AT_ONCE = 256

ONLY_PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
#: Beam's trigger driver does not call the pane of a default trigger the last: late ones may follow.
ON_TIME_PANE = PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)

Push = Callable[[list[Any], Meta], None]
#: A window by its first microsecond and its end.
Span = tuple[int, int]
#: The values of each key of each window.
Tables = dict[Span, dict[Any, list[Any]]]

GLOBAL_SPAN: Span = (MIN_TIMESTAMP.micros, GlobalWindow().end.micros)

coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(SpilledValues)


def make_grouper(
    windowed_coder: Any,
    windowing: Any,
    grouping: Grouping,
    memory_bytes: int,
    slices: Slices | None = None,
    combination: Combination | None = None,
) -> Grouper:
    """Build the grouper for one channel.

    Args:
        windowed_coder: of the (key, value) pairs that arrive.
        windowing: Beam's windowing strategy.
        grouping: the path to take.
        memory_bytes: what values may take before they go to disk.
        slices: keep one partial per slice, not one per window.
        combination: how the values of slices become those of windows.
    """
    match grouping:
        case Grouping.GLOBAL:
            return GlobalGrouper(windowed_coder, windowing, memory_bytes)
        case Grouping.INTERVALS:
            return IntervalGrouper(
                windowed_coder, windowing, memory_bytes, slices, combination or Combination()
            )
        case Grouping.GENERAL:
            return GeneralGrouper(windowed_coder, windowing, memory_bytes)


class Grouper(ABC):
    """What the three paths share: keys, memory bound, spilling."""

    def __init__(self, windowed_coder: Any, windowing: Any, memory_bytes: int) -> None:
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
        else:
            msg = f"a grouping was sent a payload of kind {kind}"
            raise TransportError(msg)
        self._used += len(payload) + count * OBJECT_BYTES
        if self._used >= self._memory:
            self._runs.write(self._drain())
            self._used = 0

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

    def table_key(self, encoded: bytes) -> Any:
        """Give what stands for the key in a table: the key itself if faithful, else its bytes."""
        key = self._key_impl.decode(encoded)
        kind = type(key)
        if kind in self._key_types or (kind is tuple and self._key_tuple and self._key_tuple(key)):
            return key
        return Opaque(encoded)

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key of a table."""
        return key.encoded if type(key) is Opaque else bytes(self._key_impl.encode(key))

    def real_key(self, key: Any) -> Any:
        """Give the key that a key of a table stands for."""
        return self._key_impl.decode(key.encoded) if type(key) is Opaque else key

    def _encode_values(self, values: list[Any]) -> Iterator[tuple[int, bytes]]:
        return _chunks(values, self._value_impl.encode_to_stream)

    def _decode_values(self, data: bytes) -> Iterator[Any]:
        stream = create_InputStream(data)
        while stream.size() > 0:
            yield self._value_impl.decode_from_stream(stream, True)

    def _add_grouped(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of grouped values came without the windows they belong to"
        raise TransportError(msg)

    def _add_windowed(self, payload: bytes) -> None:
        msg = f"{len(payload)} bytes of values came by window to a grouping that has no such table"
        raise TransportError(msg)

    @abstractmethod
    def _add_row(self, encoded_key: bytes, element: Any) -> None:
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


def _chunks(
    values: list[Any], encode: Callable[[Any, Any, bool], None]
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


class TableGrouper(Grouper):
    """What the two paths share whose groups are tables of keys."""

    @abstractmethod
    def take(self) -> Tables:
        """Give the groups that are in memory and forget them."""

    @abstractmethod
    def pane(self, span: Span) -> Meta:
        """Give time, window and pane of a window's groups."""


class GlobalGrouper(TableGrouper):
    """One global window, default trigger: a table of keys."""

    def __init__(self, windowed_coder: Any, windowing: Any, memory_bytes: int) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._table: dict[Any, list[Any]] = {}
        window = GlobalWindow()
        self._pane = WindowedValue(None, window.max_timestamp(), (window,), ONLY_PANE)

    def take(self) -> Tables:
        """Give the groups that are in memory and forget them."""
        table, self._table = self._table, {}
        return {GLOBAL_SPAN: table} if table else {}

    def pane(self, span: Span) -> Meta:  # noqa: ARG002 (there is one window)
        """Give time, window and pane of the only window."""
        return self._pane

    def _add_row(self, encoded_key: bytes, element: Any) -> None:
        self._table.setdefault(self.table_key(encoded_key), []).append(element.value)

    def _add_grouped(self, payload: bytes) -> None:
        table = self._table
        find = table.get
        keys, lists = marshal.loads(payload)
        for key, values in zip(keys, lists, strict=True):
            known = find(key)
            if known is None:
                table[key] = values
            else:
                known += values

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        named = sorted(((self.key_bytes(k), k) for k in self._table), key=lambda pair: pair[0])
        for name, key in named:
            yield name, self._encode_values(self._table.pop(key))

    def _emit_memory(self, push: Push) -> None:
        real = self.real_key
        pairs = ((real(key), values) for key, values in taken(self._table))
        in_batches(pairs, self._pane, push)

    def _emit_spilled(self, push: Push) -> None:
        decode = self._key_impl.decode
        pairs = (
            (decode(name), SpilledValues(chunks, self._decode_values))
            for name, chunks in self._runs.groups()
        )
        in_batches(pairs, self._pane, push)


def taken(table: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Empty a table while reading it, so that groups are freed as soon as they are used."""
    while table:
        yield table.popitem()


def in_batches(groups: Iterator[Any], meta: Meta, push: Push) -> None:
    """Hand on groups that share time, window and pane, some at a time."""
    while batch := list(islice(groups, GROUPS_AT_ONCE)):
        push(batch, meta)


def with_more(
    groups: Iterator[tuple[Any, list[Any]]],
    more: dict[Any, list[Any]],
    real_key: Callable[[Any], Any],
) -> Iterator[tuple[Any, list[Any]]]:
    """Give the groups of a window, with values that came for it another way; empties `more`."""
    if not more:
        for key, values in groups:
            yield real_key(key), values
        return
    for key, values in groups:
        yield real_key(key), values + more.pop(key, [])
    for key, values in taken(more):
        yield real_key(key), values


class IntervalGrouper(TableGrouper):
    """Non-merging interval windows, default trigger: a table of keys per window."""

    def __init__(
        self,
        windowed_coder: Any,
        windowing: Any,
        memory_bytes: int,
        slices: Slices | None = None,
        combination: Combination | None = None,
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._tables: Tables = {}  # with slices, a span of one period is a slice
        self._slices = slices
        self._combination = combination or Combination()

    def take(self) -> Tables:
        """Give the groups that are in memory and forget them."""
        tables, self._tables = self._tables, {}
        return tables

    def _add_row(self, encoded_key: bytes, element: Any) -> None:
        key = self.table_key(encoded_key)
        spans = [
            (w._start_micros, w._end_micros)  # noqa: SLF001 (the public ones build objects)
            for w in element.windows
        ]
        for span in self._shared(spans):
            self._tables.setdefault(span, {}).setdefault(key, []).append(element.value)

    def _shared(self, spans: list[Span]) -> list[Span]:
        """Give the one slice that stands for these windows, if there is one."""
        found = None if self._slices is None else slice_of(spans, self._slices)
        return spans if found is None else [found]

    def _add_windowed(self, payload: bytes) -> None:
        for windows, keys, lists in marshal.loads(payload):
            spans = self._shared(windows)
            shared = len(spans) > 1
            for span in spans:
                table = self._tables.get(span)
                if table is None:
                    table = self._tables[span] = {}
                find = table.get
                for key, values in zip(keys, lists, strict=True):
                    known = find(key)
                    if known is None:
                        table[key] = values[:] if shared else values
                    else:
                        known += values
            self._used += (len(spans) - 1) * len(keys) * OBJECT_BYTES

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        self._spread_slices()
        named = sorted(
            (
                (_span_bytes(span) + self.key_bytes(key), span, key)
                for span, table in self._tables.items()
                for key in table
            ),
            key=lambda triple: triple[0],
        )
        for name, span, key in named:
            yield name, self._encode_values(self._tables[span].pop(key))
        self._tables.clear()

    def pane(self, span: Span) -> Meta:
        """Give time, window and pane of a window's groups."""
        window = IntervalWindow(Timestamp(micros=span[0]), Timestamp(micros=span[1]))
        return WindowedValue(None, window.max_timestamp(), (window,), ON_TIME_PANE)

    def _spread_slices(self) -> None:
        """Give every window its share of the slices: on disk there are windows only."""
        if self._slices is None:
            return
        for span in [s for s in self._tables if s[1] - s[0] == self._slices.period]:
            for key, values in self._tables.pop(span).items():
                for window in spans_of(span[0], self._slices):
                    table = self._tables.setdefault(window, {})
                    table.setdefault(key, []).extend(values)

    def _emit_slices(self, slices: Slices, push: Push) -> None:
        """Hand on all windows that have slices, with what came for the windows themselves."""
        found = [s for s in self._tables if s[1] - s[0] == slices.period]
        tables = {span[0]: self._tables.pop(span) for span in found}
        composer = Composer(tables, slices, self._combination)
        for end in composer.ends(MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros):
            span = (end - slices.size, end)
            pairs = with_more(composer.window(end), self._tables.pop(span, {}), self.real_key)
            in_batches(pairs, self.pane(span), push)

    def _emit_memory(self, push: Push) -> None:
        if self._slices is not None:
            self._emit_slices(self._slices, push)
        real = self.real_key
        for span in sorted(self._tables, key=lambda s: (s[1], s[0])):
            pairs = ((real(key), values) for key, values in taken(self._tables.pop(span)))
            in_batches(pairs, self.pane(span), push)

    def _emit_spilled(self, push: Push) -> None:
        decode = self._key_impl.decode
        for span, named in groupby(self._runs.groups(), key=lambda group: _span_of(group[0])):
            pairs = (
                (decode(name[_SPAN_BYTES:]), SpilledValues(chunks, self._decode_values))
                for name, chunks in named
            )
            in_batches(pairs, self.pane(span), push)


class GeneralGrouper(Grouper):
    """Any trigger and any window: Beam's own trigger driver, one key at a time."""

    def __init__(self, windowed_coder: Any, windowing: Any, memory_bytes: int) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._table: dict[bytes, list[Any]] = {}
        self._driver = trigger.create_trigger_driver(windowing, True, clock=_StoppedClock())

    def take(self) -> dict[bytes, list[Any]]:
        """Give the elements of each key that are in memory and forget them."""
        table, self._table = self._table, {}
        return table

    def _add_row(self, encoded_key: bytes, element: Any) -> None:
        self._table.setdefault(encoded_key, []).append(element)

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        for name in sorted(self._table):
            yield name, self._encode_elements(self._table.pop(name))

    def _encode_elements(self, elements: list[Any]) -> Iterator[tuple[int, bytes]]:
        return _chunks(elements, self._windowed_impl.encode_to_stream)

    def _decode_elements(self, data: bytes) -> Iterator[Any]:
        stream = create_InputStream(data)
        while stream.size() > 0:
            yield self._windowed_impl.decode_from_stream(stream, True)

    def _emit_memory(self, push: Push) -> None:
        while self._table:
            name, elements = self._table.popitem()
            self._fire(name, elements, push)

    def _emit_spilled(self, push: Push) -> None:
        for name, chunks in self._runs.groups():
            elements = list(SpilledValues(chunks, self._decode_elements))
            self._fire(name, elements, push)

    def _fire(self, name: bytes, elements: list[Any], push: Push) -> None:
        key = self._key_impl.decode(name)
        state = trigger.InMemoryUnmergedState()
        for pane in self._driver.process_elements(state, elements, MIN_TIMESTAMP, MIN_TIMESTAMP):
            push([(key, pane.value)], pane)
        while state.timers:  # the input is whole: event time and processing time jump to the end
            due, _ = state.get_timers(
                clear=True, watermark=MAX_TIMESTAMP, processing_time=MAX_TIMESTAMP
            )
            for window, (name, domain, moment, _) in due:
                fired = self._driver.process_timer(
                    window, name, domain, Timestamp.of(moment), state
                )
                for pane in fired:
                    push([(key, pane.value)], pane)


class _StoppedClock:
    """Processing time stands still while a bounded input is read."""

    def time(self) -> float:
        """Give the time."""
        return 0.0


_SPAN_BYTES = 16
_SIGN = 1 << 63


def _span_bytes(span: Span) -> bytes:
    """Encode a window so that byte order is time order."""
    start, end = span
    return (end + _SIGN).to_bytes(8, "big") + (start + _SIGN).to_bytes(8, "big")


def _span_of(name: bytes) -> Span:
    end = int.from_bytes(name[:8], "big") - _SIGN
    return int.from_bytes(name[8:16], "big") - _SIGN, end
