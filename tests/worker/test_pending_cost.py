from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from typing import Any

from apache_beam import coders
from apache_beam.coders.coder_impl import StreamCoderImpl
from apache_beam.utils import windowed_value

from headrace.state.layout import Kind, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import Columns
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.views import StoredSide
from tests.worker.pending_bench import (
    BEGINNING,
    END,
    INTERVALS,
    OFTEN,
    ONCE,
    SIDE_CODER,
    Bench,
    element,
    end_of,
    payload,
    same,
    window,
)


class CountingStore(MemoryStore):
    """A store with an ordered list of names that counts what is read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[bytes] = []
        self.gets: Counter[bytes] = Counter()
        self.scans = 0
        self.seen: Counter[bytes] = Counter()
        self.put_bytes = 0

    def get(self, name: bytes) -> bytes | None:
        self.gets[name] += 1
        return super().get(name)

    def put(self, name: bytes, value: bytes) -> None:
        if name not in self.rows:
            insort(self.names, name)
        self.put_bytes += len(value)
        super().put(name, value)

    def delete(self, name: bytes) -> None:
        if name in self.rows:
            del self.names[bisect_left(self.names, name)]
        super().delete(name)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.scans += 1
        chosen = self.names[bisect_left(self.names, start) : bisect_left(self.names, end)]
        for name in chosen:
            self.seen[name] += 1
            yield name, self.rows[name]


class CountingImpl(StreamCoderImpl):  # type: ignore[misc]
    """Integers; counts how often it works."""

    def __init__(self) -> None:
        self.inner = coders.VarIntCoder().get_impl()
        self.encoded = self.decoded = 0

    def encode_to_stream(self, value: int, out: Any, nested: bool) -> None:
        self.encoded += 1
        self.inner.encode_to_stream(value, out, nested)

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        self.decoded += 1
        return self.inner.decode_from_stream(stream, nested)


class CountingCoder(coders.Coder):  # type: ignore[misc]
    def __init__(self) -> None:
        self.impl = CountingImpl()

    def get_impl(self) -> Any:
        return self.impl


WINDOWS = 1_000


def push_back_and_open(amount: int) -> tuple[CountingStore, CountingImpl, int]:
    """Push elements back in 5 epochs, then open 1,000 side windows in random order in 20."""
    dice = random.Random(7)
    coder = CountingCoder()
    channel = StoredSide(1, SIDE_CODER, OFTEN, False)
    side = Side(index=0, mapping=same, channel=channel, window_coder=INTERVALS)
    graph = PendingGraph(
        3, [side], coders.WindowedValueCoder(coder, INTERVALS), None
    )
    store = CountingStore()
    singles = [(window(n),) for n in range(WINDOWS)]
    panes = [windowed_value.PANE_INFO_UNKNOWN] * 2_000
    for epoch in range(5):
        graph.attach(store)
        channel.attach(store, BEGINNING)
        share = range(epoch * amount // 5, (epoch + 1) * amount // 5)
        for first in range(share.start, share.stop, 2_000):
            values = list(range(first, min(first + 2_000, share.stop)))
            chosen = [singles[v % WINDOWS] for v in values]
            assert graph.admit(values, Columns(values, chosen, panes[: len(values)])) is None
        channel.flush()
        graph.flush()
    order = list(range(WINDOWS))
    dice.shuffle(order)
    released = 0
    for epoch in range(20):
        graph.attach(store)
        channel.attach(store, BEGINNING)
        for n in order[epoch * 50 : epoch * 50 + 50]:
            channel.add_rows(payload(element(n, 0, window(n))))
        opened = [(0, one) for one in channel.advance(BEGINNING)]
        for values, _ in graph.release(opened, [BEGINNING]):
            released += len(values)
        channel.flush()
        graph.flush()
    return store, coder.impl, released


def reads(store: CountingStore, kind: Kind) -> list[int]:
    """How often each row of a kind was read, by name or in a scan."""
    both = store.gets + store.seen
    return [times for row, times in both.items() if kind_of(row) is kind]


def test_elements_pushed_back_are_read_once_and_store_reads_depend_on_windows_alone() -> None:
    runs = {amount: push_back_and_open(amount) for amount in (10_000, 30_000, 100_000)}
    for amount, (store, impl, released) in runs.items():
        assert (impl.encoded, impl.decoded, released) == (amount, amount, amount)
        # A chunk for each window and epoch, however many elements are in it; each is read once.
        assert reads(store, Kind.PENDING_ELEMENTS) == [1] * 5 * WINDOWS
        assert reads(store, Kind.PENDING_SIDE) == [1] * WINDOWS
    totals = {
        (store.gets.total(), store.scans, store.seen.total()) for store, _, _ in runs.values()
    }
    assert len(totals) == 1  # the same for all amounts


def test_edge_is_scanned_at_most_once_for_each_side_input_however_long_it_waits() -> None:
    """Side input 0 runs ahead, 1 stays behind: its edges lie where 0 scans."""
    bench = Bench([same, same], [ONCE, ONCE])
    store = bench.store = CountingStore()
    bench.epoch(*[element(n, n, window(n)) for n in range(50)])
    for n in range(50):
        assert bench.epoch(marks={0: end_of(window(n))}) == []
    assert bench.epoch(marks={1: END}) == [(n, window(n)) for n in range(50)]
    assert max(reads(store, Kind.PENDING_SIDE)) <= 2
    assert reads(store, Kind.PENDING_ELEMENTS) == [1] * 50


def test_epoch_in_which_nothing_is_freed_reads_no_node_and_no_chunk() -> None:
    bench = Bench([same], [ONCE])
    store = bench.store = CountingStore()
    bench.epoch(*[element(n, n, window(5 + n % 100)) for n in range(1000)])
    store.gets.clear()
    store.seen.clear()
    bench.begin()
    assert bench.sides(marks={0: end_of(window(3))}) == []
    assert bench.graph.hold() == 0
    bench.end()
    assert store.gets.total() + store.seen.total() <= 4
