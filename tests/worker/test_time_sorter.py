"""Elements that wait for their turn; the oracle is a plain sort of a plain list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, IntervalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.plan.clocks import MAX_TIME
from headrace.state.layout import Kind, kind_of
from headrace.state.mixed import own_part
from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import Columns
from headrace.worker.sorting import entries as entries_module
from headrace.worker.sorting import sorter as sorter_module
from headrace.worker.sorting.entries import Entries
from headrace.worker.sorting.lateness import SortedLateness
from headrace.worker.sorting.rows import SpilledRows
from headrace.worker.sorting.sorter import TimeSorter
from headrace.worker.sorting.stored_sorter import StoredSorter

EVERYWHERE = GlobalWindow()
GLOBAL_WINDOW = GlobalWindows().get_window_coder()
INTERVAL_WINDOW = FixedWindows(1).get_window_coder()
SECOND = 1_000_000
PLENTY = 1 << 30

Element = tuple[Any, int, IntervalWindow | GlobalWindow]


def coder(window: Any, value: Any = None) -> coders.WindowedValueCoder:
    pairs = coders.TupleCoder([coders.StrUtf8Coder(), value or coders.VarIntCoder()])
    return coders.WindowedValueCoder(pairs, window)


GLOBAL = coder(GLOBAL_WINDOW)
INTERVALS = coder(INTERVAL_WINDOW)


def batch(elements: list[Element]) -> tuple[list[Any], Columns]:
    return [e[0] for e in elements], Columns(
        [e[1] for e in elements], [(e[2],) for e in elements], [PANE_INFO_UNKNOWN] * len(elements)
    )


def released(sorter: TimeSorter, watermark: int, most: int = 100) -> list[tuple[Any, int]]:
    found: list[tuple[Any, int]] = []
    for values, meta in sorter.release(watermark, most):
        assert 0 < len(values) <= most
        found += zip(values, meta.times, strict=True)
    return found


def stored(lateness: int = 0, memory: int = PLENTY, windowed: Any = GLOBAL) -> StoredSorter:
    return StoredSorter(7, windowed, lateness, memory)


def at(*seconds: int, key: str = "k") -> tuple[list[Any], Columns]:
    return batch([((key, s), s * SECOND, EVERYWHERE) for s in seconds])


def test_elements_leave_in_the_order_of_time_when_the_watermark_has_passed_them() -> None:
    sorter = stored()
    sorter.attach(MemoryStore(), 1)
    sorter.add(*at(3, 1, 2))
    assert released(sorter, 2 * SECOND) == [(("k", 1), SECOND)]  # one at 2 s may still come
    assert sorter.hold() == 2 * SECOND
    assert released(sorter, 2 * SECOND + 1) == [(("k", 2), 2 * SECOND)]
    assert sorter.hold() == 3 * SECOND


def test_with_lateness_they_wait_that_much_longer() -> None:
    sorter = stored(lateness=5 * SECOND)
    sorter.attach(MemoryStore(), 1)
    sorter.add(*at(3))
    assert released(sorter, 8 * SECOND) == []
    sorter.add(*at(2))  # late, in time: before what waits
    assert [value[1] for value, _ in released(sorter, 8 * SECOND + 1)] == [2, 3]


def test_at_the_end_of_time_all_leave() -> None:
    sorter = stored(lateness=5 * SECOND)
    sorter.attach(MemoryStore(), 1)
    values, meta = at(1)
    sorter.add(values, meta._replace(times=[MAX_TIME]))
    assert len(released(sorter, MAX_TIME)) == 1
    assert sorter.hold() == MAX_TIME


def test_what_waits_outlives_the_epoch_and_equal_times_keep_the_order_of_arrival() -> None:
    store = MemoryStore()
    for epoch, value in enumerate((5, 3, 4)):
        sorter = stored()
        sorter.attach(store, epoch)
        sorter.add(*batch([(("k", value), SECOND, EVERYWHERE)]))
        sorter.flush()
        assert {kind_of(name) for name in store.rows} == {Kind.SORTED}
    sorter = stored()
    sorter.attach(store, 3)
    sorter.add(*batch([(("k", 1), SECOND, EVERYWHERE)]))
    assert [value[1] for value, _ in released(sorter, 2 * SECOND)] == [5, 3, 4, 1]
    sorter.flush()
    assert store.rows == {}


def test_an_epoch_that_failed_leaves_nothing_behind() -> None:
    sorter = stored()
    sorter.attach(MemoryStore(), 1)
    sorter.add(*at(1, 2))
    sorter.attach(MemoryStore(), 1)
    assert released(sorter, MAX_TIME) == []


def test_an_element_behind_the_end_of_its_window_leaves_before_the_window_is_over() -> None:
    window = IntervalWindow(0, 10)
    sorter = stored(windowed=INTERVALS)
    sorter.attach(MemoryStore(), 1)
    late = [(("k", n), t * SECOND, window) for n, t in enumerate((40, 30, 2))]
    sorter.add(*batch(late))
    assert [value[1] for value, _ in released(sorter, 10 * SECOND)] == [2, 1, 0]


@pytest.mark.parametrize("value", [coders.VarIntCoder(), coders.PickleCoder()])
def test_windows_panes_and_values_of_any_coder_come_back(value: Any) -> None:
    window, store = IntervalWindow(0, 10), MemoryStore()
    windowed = coder(INTERVAL_WINDOW, value)
    content = 5 if isinstance(value, coders.VarIntCoder) else {"a": {1}}
    sorter = stored(windowed=windowed)
    sorter.attach(store, 1)
    times, windows, panes = [1_500], [(window,)], [PANE_INFO_UNKNOWN]  # finer than a coder's time
    sorter.add([("k", content)], Columns(times, windows, panes))
    sorter.flush()
    sorter.attach(store, 2)
    ((values, meta),) = sorter.release(MAX_TIME, 10)
    assert values == [("k", content)]
    assert (meta.times, [tuple(w) for w in meta.windows], meta.panes) == (times, windows, panes)


def test_large_elements_travel_in_rows_of_their_own() -> None:
    store = MemoryStore()
    sorter = stored(windowed=coder(GLOBAL_WINDOW, coders.BytesCoder()))
    sorter.attach(store, 1)
    big = bytes(entries_module.ROW_BYTES)
    sorter.add(*batch([(("k", big), i, EVERYWHERE) for i in range(3)]))
    sorter.flush()
    assert len(store.rows) == 3


def test_rows_are_dealt_out_to_another_number_of_shards() -> None:
    store = MemoryStore()
    sorter = stored()
    sorter.attach(store, 1)
    keys = [f"key {i}" for i in range(20)]
    sorter.add(*batch([((key, i), i, EVERYWHERE) for i, key in enumerate(keys)]))
    sorter.flush()
    seen: list[str] = []
    for shard in range(3):
        part = MemoryStore()
        for name, data in store.rows.items():
            part.rows.update(own_part(name, data, 0, shard, 3))
        sorter.attach(part, 2)
        mine = [value[0] for value, _ in released(sorter, MAX_TIME)]
        assert mine and mine == sorted(mine, key=keys.index)
        seen += mine
    assert sorted(seen) == sorted(keys)


def test_a_row_that_is_due_in_part_is_read_without_its_rest_being_lost() -> None:
    store = MemoryStore()
    sorter = stored()
    sorter.attach(store, 1)
    sorter.add(*at(1, 2, 3, 4))
    sorter.flush()
    for epoch in (2, 3, 4):
        sorter.attach(store, epoch)
        assert [value[1] for value, _ in released(sorter, epoch * SECOND)] == [epoch - 1]
        assert sorter.hold() == epoch * SECOND
        sorter.flush()


TIMES = st.integers(0, 30)
EPOCHS = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from("abc"), TIMES), max_size=12), st.integers(0, 9)),
    max_size=8,
)


@pytest.fixture(autouse=True, scope="module")
def small_rows() -> Iterator[None]:
    """Let a few elements fill a row, so that rows overlap and are due in part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries_module, "ROW_ELEMENTS", 3)
        patch.setattr(sorter_module, "ROW_ELEMENTS", 3)
        yield


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    epochs=EPOCHS,
    lateness=st.integers(0, 5),
    memory=st.sampled_from([0, 1_000, PLENTY]),
    most=st.integers(1, 5),
    windowed=st.booleans(),
)
def test_any_arrivals_in_any_epochs_leave_as_a_plain_sort_would_have_them(
    epochs: list[tuple[list[tuple[str, int]], int]],
    lateness: int,
    memory: int,
    most: int,
    windowed: bool,
) -> None:
    """Late ones are dropped first, by the rule of Beam; time jumps by up to nine units an epoch."""
    store, late = MemoryStore(), SortedLateness(lateness)
    watermark, number, dropped = 0, 0, 0
    waiting: list[tuple[int, int, str]] = []  # time, arrival, key
    given_out: list[tuple[int, int, str]] = []
    sorter = stored(lateness, memory, INTERVALS if windowed else GLOBAL)
    for epoch, (arrivals, step) in enumerate([*epochs, ([], -1)], start=1):
        if epoch % 3 == 0:  # another process goes on
            sorter = stored(lateness, memory, INTERVALS if windowed else GLOBAL)
        sorter.attach(store, epoch)
        late.attach(watermark)
        elements: list[Element] = []
        for key, time in arrivals:
            number += 1
            window = IntervalWindow(time // 10 * 10e-6, (time // 10 + 1) * 10e-6)
            elements.append(((key, number), time, window if windowed else EVERYWHERE))
            if time + lateness < watermark:
                dropped += 1
            else:
                waiting.append((time, number, key))
        in_time = late.in_time(*batch(elements)) if elements else None
        if in_time is not None:
            sorter.add(*in_time)
        watermark = MAX_TIME if step < 0 else watermark + step
        due = sorted(e for e in waiting if e[0] + lateness < watermark)
        waiting = [e for e in waiting if e not in due]
        found = [(time, value[1], value[0]) for value, time in released(sorter, watermark, most)]
        assert found == due
        oldest = min((e[0] for e in waiting), default=None)
        # Rows after a restart of another width may hold earlier; here they never hold later.
        assert sorter.hold() <= (MAX_TIME if oldest is None else oldest)
        given_out += found
        sorter.flush()
    assert given_out == sorted(given_out) and len(given_out) + dropped == number
    assert store.rows == {}


@settings(max_examples=100, deadline=None)
@given(times=st.lists(st.integers(0, 50), max_size=60), memory=st.sampled_from([0, 1_000, PLENTY]))
def test_a_batch_that_outgrows_memory_is_sorted_on_disk(times: list[int], memory: int) -> None:
    sorter = TimeSorter(Entries(GLOBAL, keyed=False), SpilledRows(), 5, memory)
    for number, time in enumerate(times):
        sorter.add(*batch([(("k", number), time, EVERYWHERE)]))
    found = [(time, value[1]) for value, time in released(sorter, MAX_TIME, 7)]
    assert found == sorted((time, number) for number, time in enumerate(times))


def test_an_element_is_dropped_when_its_time_and_the_lateness_are_before_the_watermark() -> None:
    late = SortedLateness(5)
    late.attach(20)
    values, meta = batch([(("k", t), t, EVERYWHERE) for t in (14, 15, 16)])
    kept = late.in_time(values, meta)
    assert kept is not None and [value[1] for value in kept[0]] == [15, 16]
    assert late.dropped == 1
    one = WindowedValue(None, 0, (EVERYWHERE,))
    assert late.in_time([("k", 0), ("k", 1)], one) is None
    assert late.dropped == 3
