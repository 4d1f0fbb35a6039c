"""One key with most elements, and many windows that wait at once: work grows with their number.

Operations on the store are counted, not seconds; `headrace lab run streaming hotkey windows`
measures the same at five million elements and a million windows.
"""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.window import IntervalWindow

from headrace.state.layout import Kind, kind_of
from tests.worker.stored_kit import BAG, SECOND, STAGE, SUM, CountingStore, Worker, never
from tests.worker.stream_groups import Stream, events

LATE = core.Windowing(
    window.FixedWindows(1),
    triggerfn=trigger.AfterWatermark(late=trigger.AfterCount(1)),
    accumulation_mode=trigger.AccumulationMode.DISCARDING,
    allowed_lateness=5,
)
ON_TIME = core.Windowing(window.FixedWindows(1))


def firing(windowing: core.Windowing, windows: int, general: bool) -> tuple[int, int]:
    """Open windows of one key over five epochs, then pass all; give operations and panes."""
    stream = Stream(windowing, general=general)
    for number in range(5):
        part = range(windows * number // 5, windows * (number + 1) // 5)
        stream.epoch(events(windowing, [("k", n, n * SECOND) for n in part]), 0, batch=100)
    out = stream.epoch([], (windows + 10) * SECOND)
    store = stream.store
    assert sorted(value for pane in out for value in pane.value[1]) == list(range(windows))
    return store.gets + store.writes + store.scanned, len(out)


@pytest.mark.parametrize(
    ("windowing", "general"), [(ON_TIME, False), (LATE, True)], ids=["default", "late firings"]
)
def test_many_windows_that_close_at_once_cost_the_same_each(
    windowing: core.Windowing, general: bool
) -> None:
    few, panes = firing(windowing, 200, general)
    assert panes == 200
    many, panes = firing(windowing, 1_000, general)
    assert panes == 1_000
    assert many <= 5 * few * 1.05
    assert few <= 200 * 20


def test_a_million_windows_would_be_handed_on_one_at_a_time() -> None:
    """What fires leaves at once: nothing of the windows before is held."""
    stream = Stream(ON_TIME)
    stream.epoch(events(ON_TIME, [("k", n, n * SECOND) for n in range(500)]), 0, batch=100)
    left: list[int] = []

    def push(values: list[Any], meta: Any) -> None:
        assert len(values) == 1
        left.append(sum(kind_of(row) is Kind.GROUP for row in stream.store.rows))

    stream.grouper = stream.build()
    stream.grouper.attach(stream.store, stream.watermark)
    stream.grouper.advance(1_000 * SECOND, 0, push)
    assert len(left) == 500
    assert left[-1] <= 1  # rows go as their windows leave


@pytest.mark.parametrize("spec", [BAG, SUM], ids=["a bag", "a combining cell"])
def test_an_epoch_of_a_hot_key_writes_what_it_brings_and_not_what_is_there(spec: Any) -> None:
    store = CountingStore()
    worker = Worker(store)
    written: list[int] = []
    for epoch in range(30):
        store.calls.clear()
        before = sum(map(len, store.rows.values()))
        state = worker.state(spec, "hot")
        for number in range(1_000):
            state.add(number)
        worker.end_epoch()
        written.append(store.calls["put"])
        grown = sum(map(len, store.rows.values())) - before
        assert grown <= 2_100, epoch  # two bytes a number; a sum does not grow at all
        assert store.calls["get"] <= 3
    assert max(written) <= 3  # the cell's row, a chunk, and once the index of expiry
    total = worker.state(spec, "hot").read()
    assert (total if spec is SUM else sum(total)) == 30 * sum(range(1_000))


def test_the_state_of_many_windows_expires_with_a_few_operations_each() -> None:
    def expiring(windows: int) -> int:
        store = CountingStore()
        worker = Worker(store)
        for number in range(windows):
            worker.state(BAG, "k", IntervalWindow(number, number + 1)).add(number)
        worker.end_epoch()
        store.calls.clear()
        assert worker.cells.expire(STAGE, (windows + 10) * SECOND, never) == windows
        assert store.rows == {}
        return sum(store.calls.values())

    few, many = expiring(200), expiring(1_000)
    assert many <= 5 * few * 1.05
    assert few <= 200 * 10
