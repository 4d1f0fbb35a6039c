"""Merges windows of one key, with what triggers remember of them, as Beam's driver would.

Sessions, the usual case, are merged on numbers; any other window function is asked itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from apache_beam.transforms.window import IntervalWindow, Sessions, WindowFn
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_types import Interval, TriggerDriver, Value, Window
from headrace.worker.grouping.trigger_state import Record


class Arrived(NamedTuple):
    """The elements of one window that came in this epoch."""

    window: Window
    values: list[Value]
    times: list[int]
    more: list[int]  # for values that stand for several elements: how many more than one

    @property
    def elements(self) -> int:
        """How many elements came."""
        return len(self.values) + sum(self.more)


Found = dict[WindowKey, Arrived]


def merge(
    record: Record, found: Found, window_fn: WindowFn, driver: TriggerDriver
) -> Iterable[Arrived]:
    """Merge the windows that came with those that are known; give the elements by the outcome."""
    if all(key in record.windows for key in found):
        return found.values()
    if type(window_fn) is Sessions:
        return _merge_sessions(record, found, driver)
    windows = {known.window for known in record.windows.values()}
    windows.update(arrived.window for arrived in found.values())
    merging = _Merging(windows, record, driver)
    window_fn.merge(merging)
    if not merging.merged_away:
        return found.values()
    moved: Found = {}
    for arrived in found.values():
        _put(moved, merging.final(arrived.window), arrived)
    return moved.values()


def _merge_sessions(record: Record, found: Found, driver: TriggerDriver) -> Iterable[Arrived]:
    """Merge spans that overlap.

    Windows that came together have no state yet, so they are joined first and triggers are told of
    the outcome alone.
    """
    moved: Found = {}
    spans: list[Any] = sorted({*found, *record.windows})
    at = 0
    while at < len(spans):
        start, end = spans[at]
        first = at
        at += 1
        while at < len(spans) and spans[at][0] < end:
            end = max(end, spans[at][1])
            at += 1
        parts = spans[first:at]
        fresh = [found[part] for part in parts if part in found]
        if not fresh:
            continue
        if len(parts) == 1:
            _put(moved, fresh[0].window, fresh[0])
            continue
        known = [record.windows[part].window for part in parts if part in record.windows]
        result = _interval(start, end)
        if known:
            ends = (window_key(arrived.window) for arrived in fresh)
            _Merging(set(), record, driver).merge([*known, _union(ends)], result)
        for arrived in fresh:
            _put(moved, result, arrived)
    return moved.values()


def _put(moved: Found, window: Window, arrived: Arrived) -> None:
    key = window_key(window)
    into = moved.get(key)
    if into is None:
        moved[key] = Arrived(window, arrived.values, arrived.times, arrived.more)
    else:
        into.values.extend(arrived.values)
        into.times.extend(arrived.times)
        into.more.extend(arrived.more)


def _interval(start: int, end: int) -> Interval:
    found: Interval = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
    return found


def _union(spans: Iterable[Any]) -> Interval:
    starts, ends = zip(*spans, strict=True)
    return _interval(min(starts), max(ends))


class _Merging(WindowFn.MergeContext):  # type: ignore[misc]
    """Carries out what a window function wants merged."""

    def __init__(self, windows: set[Window], record: Record, driver: TriggerDriver) -> None:
        super().__init__(windows)
        self._record = record
        self._driver = driver
        self.merged_away: dict[WindowKey, Window] = {}

    def merge(self, to_be_merged: list[Window], merge_result: Window) -> None:
        """Let one window take the place of several."""
        record, driver = self._record, self._driver
        target = window_key(merge_result)
        for window in to_be_merged:
            key = window_key(window)
            if key != target:
                self.merged_away[key] = merge_result
                # Panes are counted anew in the window that comes out.
                record.clear_state(window, driver.INDEX)
                record.clear_state(window, driver.NONSPECULATIVE_INDEX)
        record.merge(to_be_merged, merge_result)
        context = record.at(merge_result, driver.clock)
        driver.trigger_fn.on_merge(to_be_merged, merge_result, context)

    def final(self, window: Window) -> Window:
        """Give the window that took the place of another in the end."""
        while (key := window_key(window)) in self.merged_away:
            window = self.merged_away[key]
        return window
