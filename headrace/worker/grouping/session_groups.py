"""Groups a bounded input into sessions: each key's spans are sorted, and merged where they overlap.

Takes super tuples, gives windowed (key, values) at the end of the input. Beam's rule of merging,
on numbers: a span joins the one before it if it begins before that one ends. `sessions` does the
same for streams, and takes its input by this grouper.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from headrace.worker.batched.batches import Columns
from headrace.worker.batched.moments import moment_of
from headrace.worker.beam_types import (
    Element,
    Interval,
    Key,
    Pane,
    Value,
    WindowedCoder,
    Windowing,
    Windows,
)
from headrace.worker.exchange.grouping_kind import counts_of
from headrace.worker.grouping.bounded import (
    GROUPS_AT_ONCE,
    BoundedGrouper,
    Push,
    chunks_of,
    taken,
)
from headrace.worker.grouping.spill import SpilledValues

#: What is there before the end of the input is known of.
_EARLY_PANE = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)


class Spans(NamedTuple):
    """What came for one key, in the order in which it came; one entry per element and window."""

    starts: list[int]  # microseconds
    ends: list[int]
    values: list[Value]


def add_spans(table: dict[Key, Spans], keys: list[Key], every: list[list[Value]]) -> None:
    """Take keys, and for each the columns of `Spans`, as they travel."""
    find = table.get
    for key, spans in zip(keys, every, strict=True):
        known = find(key)
        if known is None:
            table[key] = Spans._make(spans)
        else:
            for into, more in zip(known, spans, strict=True):
                into += more


class Burst(NamedTuple):
    """Values whose windows overlap, one with the next."""

    start: int
    end: int
    values: list[Value]


def bursts(spans: Spans) -> list[Burst]:
    """Merge the spans of one key; gives them in the order of time."""
    starts, ends, values = spans
    if len(starts) == 1:
        return [Burst(starts[0], ends[0], values)]
    found: list[Burst] = []
    order = sorted(range(len(starts)), key=starts.__getitem__)
    first, end = starts[order[0]], ends[order[0]]
    held = [values[order[0]]]
    for i in order[1:]:
        if starts[i] < end:
            held.append(values[i])
            end = max(end, ends[i])
        else:
            found.append(Burst(first, end, held))
            first, end, held = starts[i], ends[i], [values[i]]
    found.append(Burst(first, end, held))
    return found


class SessionGrouper(BoundedGrouper):
    """Beam's sessions: each session of a key fires once, or ahead of its end too by its count."""

    def __init__(
        self, windowed_coder: WindowedCoder, windowing: Windowing, memory_bytes: int
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._table: dict[Key, Spans] = {}
        counts = counts_of(windowing)
        self._early = counts.early if counts is not None else None
        self._accumulates = windowing.accumulation_mode != AccumulationMode.DISCARDING
        finished = counts is not None and counts.late is None
        self._only = PaneInfo(True, finished, PaneInfoTiming.ON_TIME, 0, 0)
        self._second = PaneInfo(False, finished, PaneInfoTiming.ON_TIME, 1, 0)

    def take(self) -> dict[Key, Spans]:
        """Give what is in memory and forget it."""
        table, self._table = self._table, {}
        return table

    def _of(self, key: Key) -> Spans:
        known = self._table.get(key)
        if known is None:
            known = self._table[key] = Spans([], [], [])
        return known

    def _add_row(self, encoded_key: bytes, element: Element) -> None:
        self._append(self._of(self.table_key(encoded_key)), element)

    def _append(self, spans: Spans, element: Element) -> None:
        value = element.value
        for number, window in enumerate(element.windows):
            spans.starts.append(window._start_micros)  # type: ignore[attr-defined]  # noqa: SLF001 (builds no object)
            spans.ends.append(window._end_micros)  # type: ignore[attr-defined]  # noqa: SLF001 (the same)
            if number:  # each window has a value of its own: merging may change it
                value = self._value_impl.decode(self._value_impl.encode(value))
            spans.values.append(value)

    def _add_spans(self, payload: bytes) -> None:
        add_spans(self._table, *marshal.loads(payload))

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        named = sorted(((self.key_bytes(k), k) for k in self._table), key=lambda pair: pair[0])
        for name, key in named:
            yield name, self._encode_spans(self._table.pop(key))

    def _encode_spans(self, spans: Spans) -> Iterator[tuple[int, bytes]]:
        made = [
            windowed_value.create(value, start, (session(start, end),))
            for start, end, value in zip(*spans, strict=True)
        ]
        return chunks_of(made, self._windowed_impl.encode_to_stream)

    def _decode_elements(self, data: bytes) -> Iterator[Value]:
        stream = create_InputStream(data)
        while stream.size() > 0:
            yield self._windowed_impl.decode_from_stream(stream, True)

    def _emit_memory(self, push: Push) -> None:
        out = SessionPanes(push)
        real = self.real_key
        for key, spans in taken(self._table):
            self._fire(real(key), spans, out)
        out.flush()

    def _emit_spilled(self, push: Push) -> None:
        out = SessionPanes(push)
        for name, chunks in self._runs.groups():
            spans = Spans([], [], [])
            for element in SpilledValues(chunks, self._decode_elements):
                self._append(spans, element)
            self._fire(self._key_impl.decode(name), spans, out)
        out.flush()

    def _fire(self, key: Key, spans: Spans, out: SessionPanes) -> None:
        """Fire sessions as Beam's driver does: it is told of all elements, then of their end."""
        last: list[tuple[Burst, Pane]] = []
        for burst in bursts(spans):
            if self._early is not None and len(burst.values) >= self._early:
                out.take(key, burst.values, burst.start, burst.end, _EARLY_PANE)
                values = list(burst.values) if self._accumulates else []
                last.append((burst._replace(values=values), self._second))
            else:
                last.append((burst, self._only))
        for burst, pane in last:
            out.take(key, burst.values, burst.start, burst.end, pane)


class SessionPanes:
    """Hands panes of sessions on, some at a time."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self._clear()

    def _clear(self) -> None:
        self._groups: list[Value] = []
        self._times: list[int] = []
        self._windows: list[Windows] = []
        self._panes: list[Pane] = []

    def take(self, key: Key, values: list[Value], start: int, end: int, pane: Pane) -> None:
        """Take one pane; its time is the last moment of its session."""
        self._groups.append((key, values))
        self._times.append(end - 1)
        self._windows.append((session(start, end),))
        self._panes.append(pane)
        if len(self._groups) >= GROUPS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Hand on what is held."""
        if self._groups:
            groups, meta = self._groups, Columns(self._times, self._windows, self._panes)
            self._clear()
            self._push(groups, meta)


def session(start: int, end: int) -> Interval:
    """Give the window with these bounds."""
    return IntervalWindow(moment_of(start), moment_of(end))  # type: ignore[no-any-return]
