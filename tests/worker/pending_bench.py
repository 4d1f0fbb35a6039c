"""A pending states graph and its side inputs, run epoch by epoch on a store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import FixedWindows, IntervalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

from headrace.state.layout import KEY_GROUPS, Kind, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import batch_of, columns
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.views import StoredSide

BEGINNING, END = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
SECOND = 1_000_000
INTERVALS = coders.coders.IntervalWindowCoder()
SIDE_CODER = coders.WindowedValueCoder(coders.VarIntCoder(), INTERVALS)
MAIN_CODER = coders.WindowedValueCoder(coders.VarIntCoder(), INTERVALS)
KEYED_CODER = coders.WindowedValueCoder(
    coders.TupleCoder((coders.VarIntCoder(), coders.VarIntCoder())), INTERVALS
)

#: Fires at any time, so a window is ready with its first element.
OFTEN = Windowing(
    FixedWindows(10),
    triggerfn=trigger.Repeatedly(trigger.AfterCount(1)),
    accumulation_mode=trigger.AccumulationMode.DISCARDING,
)
ONCE = Windowing(FixedWindows(10))


def window(number: int, size: int = 10) -> IntervalWindow:
    """Window number n of ten seconds' step."""
    return IntervalWindow(number * 10, number * 10 + size)


def encoded(one: IntervalWindow) -> bytes:
    return bytes(INTERVALS.encode(one))


def end_of(one: Any) -> int:
    """Give the first watermark that has passed a window."""
    return int(one.end.micros)


def element(value: Any, time: int, *windows: Any) -> Any:
    return windowed_value.create(value, time, windows, windowed_value.PANE_INFO_UNKNOWN)


def payload(*elements: Any) -> bytes:
    out = create_OutputStream()
    for one in elements:
        SIDE_CODER.get_impl().encode_to_stream(one, out, True)
    return bytes(out.get())


def pairs(batches: Any) -> list[tuple[Any, Any]]:
    """Give (value, window) of everything that may be processed, sorted."""
    found = []
    for values, meta in batches:
        for value, windows in zip(values, columns(values, meta).windows, strict=True):
            found += [(value, one) for one in windows]
    return sorted(found, key=lambda pair: (pair[0], pair[1].end, pair[1].start))


class Bench:
    """A graph and its side inputs, one epoch after the other, on one store."""

    def __init__(
        self, mappings: list[Any], windowings: list[Any], *, keyed: bool = False
    ) -> None:
        self.mappings, self.windowings, self.keyed = mappings, windowings, keyed
        self.store: MemoryStore = MemoryStore()
        self.marks = [BEGINNING] * len(mappings)
        self.build()

    def build(self) -> None:
        """Make new objects, as another process would."""
        self.channels = [
            StoredSide(5 + i, SIDE_CODER, windowing, False)
            for i, windowing in enumerate(self.windowings)
        ]
        sides = [
            Side(index=i, mapping=mapping, channel=self.channels[i], window_coder=INTERVALS)
            for i, mapping in enumerate(self.mappings)
        ]
        place = ShardOf(coders.VarIntCoder(), KEY_GROUPS).any if self.keyed else None
        coder = KEYED_CODER if self.keyed else MAIN_CODER
        self.graph = PendingGraph(3, sides, coder, place)

    def begin(self) -> None:
        self.graph.attach(self.store)
        for channel, mark in zip(self.channels, self.marks, strict=True):
            channel.attach(self.store, mark)

    def sides(
        self, data: Sequence[tuple[int, Any]] = (), marks: dict[int, int] | None = None
    ) -> list[tuple[Any, Any]]:
        """Bring data and watermarks of side inputs; give what they release."""
        for index, one in data:
            self.channels[index].add_rows(payload(element(index, int(one.start.micros), one)))
        for index, mark in (marks or {}).items():
            self.marks[index] = mark
        opened = [
            (index, one)
            for index, channel in enumerate(self.channels)
            for one in channel.advance(self.marks[index])
        ]
        return pairs(self.graph.release(opened, self.marks))

    def admit(self, *elements: Any) -> list[tuple[Any, Any]]:
        admitted = self.graph.admit(*batch_of(list(elements)))
        return pairs([] if admitted is None else [admitted])

    def end(self) -> None:
        for channel in self.channels:
            channel.flush()
        self.graph.flush()

    def epoch(
        self, *elements: Any, data: Any = (), marks: dict[int, int] | None = None
    ) -> list[tuple[Any, Any]]:
        """Run one epoch; give what was processed in it."""
        self.begin()
        found = self.sides(data, marks)
        if elements:
            found += self.admit(*elements)
        self.end()
        return found

    def kinds(self) -> Counter[Kind]:
        return Counter(map(kind_of, self.store.rows))


def same(one: Any) -> Any:
    return one
