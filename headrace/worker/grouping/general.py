"""Groups a bounded input by any window and trigger: Beam's own trigger driver, key by key."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.transforms import trigger
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from headrace.worker.beam_types import Element, Value, WindowedCoder, Windowing
from headrace.worker.exchange.merged_rows import read_merged
from headrace.worker.grouping.bounded import BoundedGrouper, Push, chunks_of, taken
from headrace.worker.grouping.session_groups import session
from headrace.worker.grouping.spill import SpilledValues


class GeneralGrouper(BoundedGrouper):
    """Any trigger and any window: Beam's own trigger driver, one key at a time."""

    def __init__(
        self, windowed_coder: WindowedCoder, windowing: Windowing, memory_bytes: int
    ) -> None:
        super().__init__(windowed_coder, windowing, memory_bytes)
        self._table: dict[bytes, list[Value]] = {}
        self._driver = trigger.create_trigger_driver(windowing, True, clock=_StoppedClock())

    def take(self) -> dict[bytes, list[Value]]:
        """Give the elements of each key that are in memory and forget them."""
        table, self._table = self._table, {}
        return table

    def _add_row(self, encoded_key: bytes, element: Element) -> None:
        self._table.setdefault(encoded_key, []).append(element)

    def _add_spans(self, payload: bytes) -> None:
        """Take elements in bulk; their times do not matter, so they are given those of panes."""
        encode, create = self._key_impl.encode, windowed_value.create
        windows: dict[tuple[int, int], Value] = {}
        for key, spans in zip(*marshal.loads(payload), strict=True):
            held = self._table.setdefault(encode(key), [])
            for start, end, value in zip(*spans, strict=True):
                found = windows.get((start, end))
                if found is None:
                    found = windows[start, end] = (session(start, end),)
                held.append(create(value, end - 1, found))

    def _add_merged(self, payload: bytes) -> None:
        for name, merged in read_merged(payload, self._windowed_impl.decode_from_stream):
            self._table.setdefault(name, []).append(merged)

    def _drain(self) -> Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]:
        for name in sorted(self._table):
            yield name, self._encode_elements(self._table.pop(name))

    def _encode_elements(self, elements: list[Value]) -> Iterator[tuple[int, bytes]]:
        return chunks_of(elements, self._windowed_impl.encode_to_stream)

    def _decode_elements(self, data: bytes) -> Iterator[Value]:
        stream = create_InputStream(data)
        while stream.size() > 0:
            yield self._windowed_impl.decode_from_stream(stream, True)

    def _emit_memory(self, push: Push) -> None:
        for name, elements in taken(self._table):
            self._fire(name, elements, push)

    def _emit_spilled(self, push: Push) -> None:
        for name, chunks in self._runs.groups():
            elements = list(SpilledValues(chunks, self._decode_elements))
            self._fire(name, elements, push)

    def _fire(self, name: bytes, elements: list[Value], push: Push) -> None:
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
