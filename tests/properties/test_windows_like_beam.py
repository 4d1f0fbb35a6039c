"""Windows assigned to whole batches are those Beam assigns one by one."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.transforms import core, trigger, window
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given
from hypothesis import strategies as st

from headrace.worker.batched.batches import Columns, batch_of, columns, elements, pick
from headrace.worker.batched.window_assignment import assigner, explode
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of

DAY_MICROS = 86_400_000_000
MICROS = st.integers(-400 * DAY_MICROS, 400 * DAY_MICROS)
SIZES = st.integers(1, 90_000_000).map(lambda n: Duration(micros=n)) | st.integers(1, 100_000)
OFFSETS = st.integers(-100_000, 100_000) | st.integers(0, 10**9).map(lambda n: Timestamp(micros=n))
GLOBAL = (window.GlobalWindow(),)


def assigned(fn: Any, times: list[int]) -> list[tuple[Any, ...]]:
    size = len(times)
    batch = Columns(times, [GLOBAL] * size, [PANE_INFO_UNKNOWN] * size)
    return [tuple(found) for found in assigner(fn)([None] * size, batch)]


def beams(fn: Any, times: list[int]) -> list[tuple[Any, ...]]:
    context = window.WindowFn.AssignContext
    return [tuple(fn.assign(context(Timestamp(micros=t), None))) for t in times]


@given(SIZES, OFFSETS, st.lists(MICROS, min_size=1, max_size=8))
def test_fixed_windows_are_beams(size: Any, offset: Any, times: list[int]) -> None:
    fn = window.FixedWindows(size, offset)
    assert assigned(fn, times) == beams(fn, times)


@given(SIZES, st.lists(MICROS, min_size=1, max_size=8))
def test_sessions_open_where_beams_do(gap: Any, times: list[int]) -> None:
    fn = window.Sessions(gap)
    assert assigned(fn, times) == beams(fn, times)


@given(
    st.integers(1, 60), st.integers(1, 20), OFFSETS, st.booleans(),
    st.lists(MICROS, min_size=1, max_size=8),
)  # fmt: skip
def test_sliding_windows_are_beams_whether_the_period_divides_the_size_or_not(
    size: int, period: int, offset: Any, divides: bool, times: list[int]
) -> None:
    fn = window.SlidingWindows(size * period if divides else size, period, offset)
    found = assigned(fn, times)
    assert [set(ours) for ours in found] == [set(theirs) for theirs in beams(fn, times)]
    assert all(len(set(ours)) == len(ours) for ours in found)


@given(st.integers(1, 10**6), st.lists(MICROS, min_size=1, max_size=8))
def test_sessions_start_as_beams(gap: int, times: list[int]) -> None:
    assert assigned(window.Sessions(gap), times) == beams(window.Sessions(gap), times)


def test_the_first_and_the_last_moment_of_a_window_are_in_it_and_the_next_is_not() -> None:
    fn = window.FixedWindows(10)
    spans = [
        (int(w.start), int(w.end))
        for (w,) in assigned(fn, [-10_000_000, -1, 0, 9_999_999, 10_000_000])
    ]
    assert spans == [(-10, 0), (-10, 0), (0, 10), (0, 10), (10, 20)]


def test_equal_windows_of_a_batch_are_one_object() -> None:
    first, second = assigned(window.FixedWindows(10), [1, 2])
    assert first[0] is second[0]


INTERVALS = st.integers(0, 5).map(lambda n: window.IntervalWindow(n, n + 1))
ELEMENTS = st.builds(
    window.WindowedValue, st.integers(), st.integers(-5, 5),
    st.lists(INTERVALS, min_size=1, max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(ELEMENTS, min_size=1, max_size=10))
def test_a_batch_gives_its_elements_back(found: list[Any]) -> None:
    assert list(elements(*batch_of(found))) == found


@given(st.lists(ELEMENTS, min_size=1, max_size=10), st.data())
def test_picking_keeps_time_windows_and_pane_of_each(found: list[Any], data: Any) -> None:
    values, meta = batch_of(found)
    chosen = data.draw(st.lists(st.integers(0, len(found) - 1), max_size=12))
    picked = list(elements([values[i] for i in chosen], pick(meta, chosen)))
    assert picked == [found[i] for i in chosen]


@given(st.lists(ELEMENTS, min_size=1, max_size=10))
def test_an_exploded_batch_has_each_element_once_for_each_of_its_windows(found: list[Any]) -> None:
    values, meta = batch_of(found)
    exploded = list(elements(*explode(values, columns(values, meta))))
    expected = [
        window.WindowedValue(e.value, e.timestamp, (w,), e.pane_info)
        for e in found
        for w in e.windows
    ]
    assert exploded == expected


def test_elements_that_agree_share_one_meta() -> None:
    twins = [window.WindowedValue(i, 3, GLOBAL) for i in range(3)]
    assert batch_of(twins) == ([0, 1, 2], twins[0])


@pytest.mark.parametrize(
    ("windowing", "way"),
    [
        (core.Windowing(window.GlobalWindows()), Grouping.GLOBAL),
        (core.Windowing(window.FixedWindows(5)), Grouping.INTERVALS),
        (core.Windowing(window.SlidingWindows(5, 2)), Grouping.INTERVALS),
        (core.Windowing(window.Sessions(5)), Grouping.SESSIONS),
        (core.Windowing(window.FixedWindows(0.0015)), Grouping.GENERAL),
        (core.Windowing(window.SlidingWindows(1, 0.0015)), Grouping.GENERAL),
        (core.Windowing(window.FixedWindows(1, 0.0005)), Grouping.GENERAL),
        (core.Windowing(window.GlobalWindows(), trigger.AfterCount(1), 1), Grouping.GENERAL),
        (core.Windowing(window.FixedWindows(5), trigger.AfterWatermark(), 1), Grouping.GENERAL),
        (
            core.Windowing(
                window.FixedWindows(5),
                timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST,
            ),
            Grouping.GENERAL,
        ),
    ],
    ids=[
        "global", "fixed", "sliding", "sessions", "micros", "micros of a period",
        "micros of an offset", "count", "watermark", "latest",
    ],
)  # fmt: skip
def test_only_groupings_that_fire_once_at_a_known_time_take_a_short_way(
    windowing: core.Windowing, way: Grouping
) -> None:
    assert grouping_of(windowing) is way
