from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from headrace.worker.batched.batches import Columns
from headrace.worker.grouping.lateness import Lateness

OLD, NEW = IntervalWindow(0, 10), IntervalWindow(10, 20)


def batch(*windows: Any) -> tuple[list[int], Columns]:
    values = list(range(len(windows)))
    return values, Columns(values, list(windows), [PANE_INFO_UNKNOWN] * len(windows))


def at(seconds: float, allowed: float = 0) -> Lateness:
    found = Lateness(int(allowed * 1e6))
    found.attach(int(seconds * 1e6))
    return found


def test_a_batch_in_time_is_handed_on_as_it_is() -> None:
    values, meta = batch((OLD,), (NEW,))
    assert at(5).in_time(values, meta) == (values, meta)


def test_an_element_of_a_window_that_is_over_is_dropped_and_counted() -> None:
    late = at(12)
    left = late.in_time(*batch((OLD,), (NEW,), (OLD,)))
    assert left is not None
    assert left[0] == [1] and left[1].windows == [(NEW,)]
    assert late.dropped == 2


def test_an_element_in_two_windows_stays_in_the_one_that_is_open() -> None:
    late = at(12)
    left = late.in_time(*batch((OLD, NEW)))
    assert left is not None and left[1].windows == [(NEW,)]
    assert late.dropped == 1  # in the other


def test_an_element_counts_once_for_each_window_that_is_over() -> None:
    late = at(30)
    assert late.in_time(*batch((OLD, NEW))) is None
    assert late.in_time([1, 2], WindowedValue(None, 1, (OLD, NEW))) is None
    assert late.dropped == 2 + 4


def test_lateness_that_is_allowed_keeps_a_window_open() -> None:
    assert at(12, allowed=3).in_time(*batch((OLD,))) is not None
    assert at(14, allowed=3).in_time(*batch((OLD,))) is None


def test_one_meta_for_all_is_looked_at_once() -> None:
    old = WindowedValue(None, 1, (OLD,))
    late = at(12)
    assert late.in_time([1, 2], old) is None
    assert late.dropped == 2
    everywhere = WindowedValue(None, 1, (GlobalWindow(),))
    assert late.in_time([1, 2], everywhere) == ([1, 2], everywhere)
