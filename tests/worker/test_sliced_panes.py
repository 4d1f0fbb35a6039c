"""Sliding windows kept as slices over many epochs, against Beam's driver and whole windows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apache_beam.transforms import core, window
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan.slices import Slices
from headrace.state.layout import Kind, kind_of
from headrace.state.mixed import own_part
from headrace.worker.grouping.sliced_panes import SlicedTables
from headrace.worker.grouping.slices import Combination
from tests.worker.stream_groups import SECOND, Naive, Stream, events, pane
from tests.worker.test_panes import EPOCHS, KEYS, SMALL, TIMES, handed_on, taken

SHAPES = [(10, 5, 0), (12, 2, 0), (9, 3, 1)]


def sliding(shape: tuple[int, int, int]) -> tuple[core.Windowing, Slices]:
    size, period, offset = shape
    slices = Slices(size=size * SECOND, period=period * SECOND, offset=offset * SECOND)
    return core.Windowing(window.SlidingWindows(size, period, offset)), slices


@SMALL
@given(st.sampled_from(SHAPES), EPOCHS, st.sampled_from([1, 200, 1 << 30]))
def test_slices_give_beams_panes_in_every_epoch(
    shape: tuple[int, int, int], epochs: list[Any], memory_bytes: int
) -> None:
    windowing, slices = sliding(shape)
    stream, naive = Stream(windowing, memory_bytes=memory_bytes, slices=slices), Naive(windowing)
    whole = Stream(windowing)
    assert isinstance(stream.grouper, SlicedTables)
    came = left = 0
    for data, seconds in [*epochs, ([], 1_000)]:
        found = events(windowing, data)
        came += taken(found)
        ours = stream.epoch(found, seconds * SECOND)
        left += handed_on(ours)
        assert Counter(map(pane, ours)) == Counter(map(pane, naive.epoch(found, seconds * SECOND)))
        whole.epoch(found, seconds * SECOND)
        assert stream.hold == whole.hold
        assert stream.dropped == whole.dropped
        ends = [element.windows[0].end for element in ours]
        assert ends == sorted(ends)
    assert came == left + stream.dropped
    assert {kind_of(row) for row in stream.store.rows} <= {Kind.META}


NUMBERS = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.integers(0, 9), TIMES), max_size=8), st.integers(0, 70)
    ),
    max_size=14,
)


def total(accumulators: Any) -> int:
    return sum(accumulators)


@SMALL
@given(st.sampled_from(SHAPES), NUMBERS)
def test_merged_slices_come_to_what_the_values_of_the_window_come_to(
    shape: tuple[int, int, int], epochs: list[Any]
) -> None:
    windowing, slices = sliding(shape)
    stream = Stream(
        windowing, slices=slices, compact=lambda found: [sum(found)],
        combination=Combination(total),
    )
    whole = Stream(windowing)
    for data, seconds in [*epochs, ([], 1_000)]:
        found = events(windowing, data)
        ours = stream.epoch(found, seconds * SECOND)
        theirs = whole.epoch(found, seconds * SECOND)
        assert Counter(map(_summed, ours)) == Counter(map(_summed, theirs))


def _summed(element: WindowedValue) -> tuple[str, int, str]:
    key, values = element.value
    return repr(key), sum(values), repr(element.windows)


def test_elements_of_single_windows_leave_with_those_of_slices() -> None:
    """A step that looks at windows takes elements apart: one for each window."""
    windowing, slices = sliding((10, 5, 0))
    stream = Stream(windowing, slices=slices)
    (both,) = events(windowing, [("k", "both", 12 * SECOND)])
    first, second = sorted(both.windows, key=lambda w: w.end)
    alone = WindowedValue(("k", "second alone"), both.timestamp, (second,))
    other = WindowedValue(("l", "first alone"), both.timestamp, (first,))
    out = stream.epoch([both, alone, other], 15 * SECOND)
    assert [pane(e)[:3] for e in out] == [
        ("'k'", ("'both'",), repr(first)), ("'l'", ("'first alone'",), repr(first)),
    ]  # fmt: skip
    out = stream.epoch([], 20 * SECOND)
    assert [pane(e)[:3] for e in out] == [("'k'", ("'both'", "'second alone'"), repr(second))]


def test_a_late_element_still_counts_in_the_windows_that_are_open() -> None:
    windowing, slices = sliding((10, 5, 0))
    stream = Stream(windowing, slices=slices)
    stream.epoch([], 16 * SECOND)
    out = stream.epoch(events(windowing, [("k", 1, 12 * SECOND)]), 30 * SECOND)
    assert [pane(e)[2] for e in out] == ["[10.0, 20.0)"]
    assert stream.dropped == 1  # for the window that ends at 15


def test_what_is_kept_follows_slices_not_windows() -> None:
    windowing, slices = sliding((60, 1, 0))
    data = [(f"k{n % 10}", 1, n * SECOND // 10) for n in range(1_200)]  # 120 s, all keys in each
    stream = Stream(
        windowing, slices=slices, compact=lambda found: [sum(found)],
        combination=Combination(total),
    )
    stream.epoch(events(windowing, data), 120 * SECOND, batch=1_000)
    rows = [row for row in stream.store.rows if kind_of(row) is Kind.SLICE]
    assert len(rows) == 59  # of the 60 slices of a window, the oldest is in no window any more
    assert len(stream.store.rows) <= len(rows) + 1


def test_a_key_that_comes_once_is_kept_once_not_in_each_of_its_windows() -> None:
    windowing, slices = sliding((100, 1, 0))
    data = [(f"k{n}", 1, n * SECOND // 10) for n in range(1_500)]  # 150 s, ever new keys
    sliced = Stream(
        windowing, slices=slices, compact=lambda found: [sum(found)],
        combination=Combination(total),
    )
    whole = Stream(windowing, compact=lambda found: [sum(found)])
    kept = []
    for stream in (sliced, whole):
        stream.epoch(events(windowing, data), 150 * SECOND, batch=1_000)
        kept.append(sum(len(row) + len(value) for row, value in stream.store.rows.items()))
    assert kept[1] > 50 * kept[0]  # about half the windows of an element are open


def test_an_epoch_in_which_no_window_ends_reads_no_slice() -> None:
    windowing, slices = sliding((10, 5, 0))
    stream = Stream(windowing, slices=slices)
    stream.epoch(events(windowing, [(n, 1, 12 * SECOND) for n in range(50)]), 13 * SECOND)
    stream.epoch([], 14 * SECOND)
    assert stream.store.scanned <= 2  # the hold asks for the first row


def test_many_rows_of_a_slice_become_one() -> None:
    windowing, slices = sliding((10, 5, 0))
    stream = Stream(
        windowing, slices=slices, compact=lambda found: [sum(found)],
        combination=Combination(total),
    )
    for n in range(40):
        stream.epoch(events(windowing, [("k", 1, 12 * SECOND), (n, 1, 12 * SECOND)]), SECOND)
    assert sum(kind_of(row) is Kind.SLICE for row in stream.store.rows) <= 8
    out = stream.epoch([], 15 * SECOND)
    assert {repr(e.value[0]): sum(e.value[1]) for e in out} == {
        "'k'": 40, **{str(n): 1 for n in range(40)}
    }  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.sampled_from([(1, 3), (3, 1), (2, 3, 2), (2, 1, 3, 2)]))
def test_slices_dealt_out_to_other_shards_lose_and_double_nothing(
    epochs: list[Any], counts: tuple[int, ...]
) -> None:
    """The shards are cut anew after every epoch; together they give what one alone gives."""
    windowing, slices = sliding((12, 2, 0))

    def make() -> Stream:
        return Stream(
            windowing, slices=slices, compact=lambda found: [sum(found)],
            combination=Combination(total),
        )

    alone, shards = make(), [make() for _ in range(counts[0])]
    for turn, (data, seconds) in enumerate([*epochs, ([], 1_000)]):
        found = events(windowing, data)
        size = counts[turn % len(counts)]
        shards = _cut(shards, [make() for _ in range(size)])
        ours = []
        for number, shard in enumerate(shards):
            mine = [e for e in found if shard.grouper._key_group_of(e.value[0]) % size == number]  # type: ignore[attr-defined]
            ours += shard.epoch(mine, seconds * SECOND)
        theirs = alone.epoch(found, seconds * SECOND)
        assert Counter(map(_summed, ours)) == Counter(map(_summed, theirs))


def _cut(old: list[Stream], new: list[Stream]) -> list[Stream]:
    if len(old) == len(new):
        return old
    for number, stream in enumerate(new):
        stream.watermark = old[0].watermark
        for before, source in enumerate(old):
            for row, value in source.store.rows.items():
                assert kind_of(row) in (Kind.SLICE, Kind.META)
                if kind_of(row) is Kind.SLICE:
                    for name, part in own_part(row, value, before, number, len(new)):
                        stream.store.put(name, part)
    return new
