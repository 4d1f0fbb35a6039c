"""Takes what comes to a grouping with triggers, and sorts it by window.

Takes super tuples, gives for each key what came: `Came`, and of that `Arrived` for each window that
is not over. What travelled in bulk stays bounds and values; a window is built once for all of its
values, and Beam's own sessions that came together are joined as numbers first. Keeps nothing beyond
the epoch and knows nothing of triggers.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from apache_beam.transforms.window import Sessions

from headrace.plan.lateness import is_over
from headrace.worker.batched.window_keys import last_moment, window_key
from headrace.worker.beam_types import CoderImpl, Key, Value, WindowedCoder, Windowing
from headrace.worker.exchange.merged_rows import Merged
from headrace.worker.grouping.general import GeneralGrouper
from headrace.worker.grouping.session_groups import Spans, add_spans, bursts, session
from headrace.worker.grouping.trigger_merge import Arrived, Found

#: Copies a value that another window holds too, as merging may change it.
Copy = Callable[[Value], Value]


class Came(NamedTuple):
    """What an epoch brought for one key."""

    encoded_key: bytes
    elements: list[Value]  # windowed values, or accumulators that stand for several
    spans: Spans | None  # what came in bulk


class TriggerIntake(GeneralGrouper):
    """Holds the elements of an epoch by key; there is no bound, so none goes to disk."""

    def __init__(self, windowed_coder: WindowedCoder, windowing: Windowing) -> None:
        super().__init__(windowed_coder, windowing, sys.maxsize)
        self._spans: dict[Key, Spans] = {}

    def _add_spans(self, payload: bytes) -> None:
        add_spans(self._spans, *marshal.loads(payload))

    def forget(self) -> None:
        """Let go of what is held."""
        self._table, self._spans = {}, {}

    def came(self) -> Iterator[Came]:
        """Give what is held, key by key, and forget it."""
        table, spans = self._table, self._spans
        self.forget()
        for key, found in spans.items():
            encoded = self.key_bytes(key)
            yield Came(encoded, table.pop(encoded, []), found)
        for encoded, elements in table.items():
            yield Came(encoded, elements, None)


class Sorting:
    """Sorts what came by window, and counts what is too late for its own."""

    def __init__(self, windowing: Windowing, copy: Copy | None) -> None:
        self._lateness: int = windowing.allowed_lateness.micros
        self._joins = type(windowing.windowfn) is Sessions
        self._copy = copy
        self.dropped = 0  # since it was asked last by whoever resets it

    def by_window(self, came: Came, watermark: int) -> Found:
        """Give what came in windows that are not over."""
        found: Found = {}
        if came.elements:
            self._take_elements(came.elements, found, watermark)
        if came.spans is not None:
            take = self._take_bursts if self._joins else self._take_spans
            take(came.spans, found, watermark)
        return found

    def _take_elements(self, elements: list[Value], found: Found, watermark: int) -> None:
        for element in elements:
            value = element.value
            merged = type(element) is Merged
            for window in element.windows:
                key = window_key(window)
                of_window = found.get(key)
                if of_window is None:
                    if is_over(last_moment(window), watermark, self._lateness):
                        self.dropped += element.elements if merged else 1
                        continue
                    of_window = found[key] = Arrived(window, [], [], [])
                of_window.values.append(value)
                if merged:
                    of_window.times.extend(element.times)
                    of_window.more.append(element.elements - 1)
                else:
                    of_window.times.append(element.timestamp_micros)
                if self._copy is not None and len(element.windows) > 1:
                    value = self._copy(value)  # for the next window: merging may change it

    def _take_spans(self, spans: Spans, found: Found, watermark: int) -> None:
        for start, end, value in zip(*spans, strict=True):
            of_window = found.get((start, end))
            if of_window is None:
                if is_over(end - 1, watermark, self._lateness):
                    self.dropped += 1
                    continue
                of_window = found[start, end] = Arrived(session(start, end), [], [], [])
            of_window.values.append(value)

    def _take_bursts(self, spans: Spans, found: Found, watermark: int) -> None:
        in_time = self._in_time(spans, watermark)
        if not in_time.ends:
            return
        for start, end, values in bursts(in_time):
            of_window = found.get((start, end))
            if of_window is None:
                found[start, end] = Arrived(session(start, end), values, [], [])
            else:
                of_window.values.extend(values)

    def _in_time(self, spans: Spans, watermark: int) -> Spans:
        allowed = self._lateness
        if not is_over(min(spans.ends) - 1, watermark, allowed):
            return spans
        kept = [i for i, end in enumerate(spans.ends) if not is_over(end - 1, watermark, allowed)]
        self.dropped += len(spans.ends) - len(kept)
        return Spans(*([column[i] for i in kept] for column in spans))


def copying(value_impl: CoderImpl) -> Copy:
    """Give what copies values by their coder."""
    return lambda value: value_impl.decode(value_impl.encode(value))
