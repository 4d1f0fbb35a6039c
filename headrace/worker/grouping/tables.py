"""Groups a bounded input by key and window, where each window fires once: tables of keys.

Takes super tuples, gives windowed (key, values) at the end of the input.
"""

from __future__ import annotations

import marshal
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from headrace.plan.slices import Slices
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import keeps_columns
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.beam_types import Element, Key, Value, WindowedCoder, Windowing
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.keyed_columns import Span, read_keyed
from headrace.worker.exchange.super_tuples import PayloadKind
from headrace.worker.grouping.bounded import OBJECT_BYTES, BoundedGrouper, Push, in_batches, taken
from headrace.worker.grouping.column_slices import pairs_of_slices, windows_of_slices
from headrace.worker.grouping.column_tables import (
    ColumnTables,
    Merging,
    TableKeys,
    Tables,
    grouped_objects,
)
from headrace.worker.grouping.slices import Combination, Composer, slice_of, spans_of
from headrace.worker.grouping.spill import SpilledValues
from headrace.worker.grouping.window_batches import push_columns

ONLY_PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
#: Beam's trigger driver does not call the pane of a default trigger the last: late ones may follow.
ON_TIME_PANE = PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)

GLOBAL_SPAN: Span = (MIN_TIMESTAMP.micros, GlobalWindow().end.micros)


class TableGrouper(BoundedGrouper):
    """What the two paths share whose groups are tables of keys.

    Args:
        windowed_coder, windowing, memory_bytes: as of `BoundedGrouper`.
        merging: given where values are accumulators that columns can merge.
    """

    def __init__(
        self,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        memory_bytes: int,
        merging: Merging | None = None,
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._tables: Tables = {}  # with slices, a span of one period is a slice
        self._table_keys = TableKeys(self.table_keys, self.real_key)
        self.columns = ColumnTables(GLOBAL_SPAN, self._table_keys, merging)  # what came so

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple; values stay in the order of their coming."""
        if kind != PayloadKind.KEYED_COLUMNS and self.columns.merging is None:
            self.columns.spread(self._tables)  # they came before
        super().add(kind, count, payload)

    def take(self) -> Tables:
        """Give the groups that are in memory and forget them."""
        self.columns.spread(self._tables)
        tables, self._tables = self._tables, {}
        return {span: table for span, table in tables.items() if table}

    @abstractmethod
    def pane(self, span: Span) -> Meta:
        """Give time, window and pane of a window's groups."""

    def columns_for(self, push: Push) -> ColumnTables | None:
        """Give all that was taken as columns, if the next stage takes it so.

        It is merged accumulators, or else pairs that nobody has grouped.
        """
        columns = self.columns
        if not columns:
            return None
        if columns.merging is None:
            takes = getattr(push, "takes_groups", None)
            if self._tables or takes is None or not takes(columns.parts()):
                return None
            return columns
        if not keeps_columns(push):
            return None
        return columns if columns.absorb(self._tables) else None

    def _add_columns(self, payload: bytes) -> None:
        keyed = read_keyed(payload)
        if self.columns.add(keyed, self._shared):
            copies = len(self._shared(keyed.windows[0])) if keyed.windows else 1
            self._used += (copies - 1) * len(keyed.pairs) * OBJECT_BYTES
            return
        self.columns.spread(self._tables)  # they came before
        for windows, keys, lists in grouped_objects(keyed, self._table_keys):
            self._add_lists(windows or [GLOBAL_SPAN], keys, lists)

    def _add_lists(self, windows: list[Span], keys: list[Key], lists: list[list[Value]]) -> None:
        """Add the values of each key to the tables of these windows."""
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

    def _shared(self, spans: list[Span]) -> list[Span]:
        """Give the windows, or the slice, under which the values of these windows are kept."""
        return spans

    def _emit_merged(self, push: Push) -> bool:
        """Hand everything on as columns; False: it has to be objects, and nothing has left."""
        columns = self.columns_for(push)
        if columns is not None and columns.merging is None:
            push_groups(columns.by_span(), self.pane, push)
            columns.clear()
            return True
        merged = None if columns is None else columns.merged()
        if merged is None:
            return False
        spans = sorted(merged, key=lambda s: (s[1], s[0]))
        push_columns(((span, merged[span]) for span in spans), self.pane, push)
        self.columns.clear()
        return True


def push_groups(
    found: dict[Span, list[ColumnValues]], pane: Callable[[Span], Meta], push: Push
) -> None:
    """Hand on the pairs of windows, in the order of their ends."""
    for span in sorted(found, key=lambda s: (s[1], s[0])):
        push.groups(KeyedRows(found.pop(span)), pane(span))  # type: ignore[attr-defined]  # asked


class GlobalGrouper(TableGrouper):
    """One global window, default trigger: a table of keys."""

    def __init__(
        self,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        memory_bytes: int,
        merging: Merging | None = None,
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes, merging)
        window = GlobalWindow()
        self._pane = WindowedValue(None, window.max_timestamp(), (window,), ONLY_PANE)

    def pane(self, span: Span) -> Meta:  # noqa: ARG002 (there is one window)
        """Give time, window and pane of the only window."""
        return self._pane

    @property
    def _table(self) -> dict[Key, list[Value]]:
        return self._tables.setdefault(GLOBAL_SPAN, {})

    def _add_row(self, encoded_key: bytes, element: Element) -> None:
        self._table.setdefault(self.table_key(encoded_key), []).append(element.value)

    def _add_grouped(self, payload: bytes) -> None:
        keys, lists = marshal.loads(payload)
        self._add_lists([GLOBAL_SPAN], keys, lists)

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        self.columns.spread(self._tables)
        table = self._table
        named = sorted(((self.key_bytes(k), k) for k in table), key=lambda pair: pair[0])
        for name, key in named:
            yield name, self._encode_values(table.pop(key))

    def _emit_memory(self, push: Push) -> None:
        if self._emit_merged(push):
            return
        self.columns.spread(self._tables)
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


def with_more(
    groups: Iterator[tuple[Key, list[Value]]],
    more: dict[Key, list[Value]],
    real_key: Callable[[Key], Key],
) -> Iterator[tuple[Key, list[Value]]]:
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
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        memory_bytes: int,
        slices: Slices | None = None,
        combination: Combination | None = None,
        merging: Merging | None = None,
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes, merging)
        self._slices = slices
        self._combination = combination or Combination()

    def _add_row(self, encoded_key: bytes, element: Element) -> None:
        key = self.table_key(encoded_key)
        spans = [
            (w._start_micros, w._end_micros)  # type: ignore[attr-defined]  # noqa: SLF001 (intervals)
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
            self._add_lists(windows, keys, lists)

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        self.columns.spread(self._tables)
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

    def _emit_merged_slices(self, push: Push) -> bool:
        """Hand on all windows as columns, put together from slices; False: as objects."""
        columns, slices = self.columns_for(push), self._slices
        if columns is not None and slices is not None and columns.merging is None:
            found = pairs_of_slices(columns.by_span(), slices, MIN_TIMESTAMP.micros)
            push_groups(found, self.pane, push)
            columns.clear()
            return True
        merged = None if columns is None else columns.merged()
        if columns is None or merged is None or slices is None:
            return False
        windows = windows_of_slices(merged, slices, columns, MIN_TIMESTAMP.micros)
        if windows is None:
            return False
        push_columns(windows, self.pane, push)
        columns.clear()
        return True

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
        if self._emit_merged_slices(push) if self._slices else self._emit_merged(push):
            return
        self.columns.spread(self._tables)
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


_SPAN_BYTES = 16
_SIGN = 1 << 63


def _span_bytes(span: Span) -> bytes:
    """Encode a window so that byte order is time order."""
    start, end = span
    return (end + _SIGN).to_bytes(8, "big") + (start + _SIGN).to_bytes(8, "big")


def _span_of(name: bytes) -> Span:
    end = int.from_bytes(name[:8], "big") - _SIGN
    return int.from_bytes(name[8:16], "big") - _SIGN, end
