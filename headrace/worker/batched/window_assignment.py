"""Assigns windows to whole batches; equal windows are one object.

Takes a window function, gives a node of a batched chain. The common window functions are computed
on the microseconds alone, the others are asked value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.worker.batched.batches import GLOBAL, Assigned, Columns, Meta, columns, pick
from headrace.worker.batched.chains import Edge, augment, given
from headrace.worker.batched.column_batches import (
    Started,
    TimeColumns,
    as_rows,
    each_in_one_window,
    row_meta,
)
from headrace.worker.batched.moments import moment_of
from headrace.worker.beam_types import Interval, Operation, Value, WindowFn
from headrace.worker.checks.verified_columns import verify_windows
from headrace.worker.columns.values import ColumnValues

#: Windows remembered by their start; more than any pipeline has open at once.
MAX_KNOWN_WINDOWS = 100_000
#: The same of sessions, of which each moment opens one: those of a few batches share a moment.
MAX_SPANS = 10_000


class WindowsNode:
    """Window assignment for a whole batch; equal windows are one object."""

    def __init__(
        self,
        window_fn: WindowFn,
        op: Operation,
        step_name: str,
        edge: Edge,
        *,
        verified: bool = False,
    ) -> None:
        grid = _grid_of(window_fn)  # one for both, so that equal windows are one object
        self._assign = assigner(window_fn, grid)
        self._on_columns = column_assigner(window_fn, grid)
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._edge = edge
        self._verified = verified  # windows are found in both ways

    @property
    def takes_columns(self) -> bool:
        """Whether columns go on as columns, to somebody who keeps them."""
        return self._on_columns is not None and self._edge.takes_columns

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        with self._state:
            try:
                old = columns(values, meta)
                if any(len(w) != 1 for w in old.windows):
                    values, old = explode(values, old)
                found = self._assign(values, old)
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, self._step_name)
        self._edge(
            values,
            Columns(old.times, found, [PANE_INFO_UNKNOWN] * len(values), old.numbers),
        )

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns: windows are arithmetic on the column of times."""
        assert self._on_columns is not None
        with self._state:
            found = self._on_columns(meta) if each_in_one_window(meta) else None
        if found is None:
            for part, its in as_rows(values, meta):
                self(part, its)
        else:
            if self._verified:
                self._verify(values, meta, found)
            self._edge.columns(values, found)

    def _verify(self, values: ColumnValues, meta: Meta, found: Meta) -> None:
        objects = values.objects()
        wanted = self._assign(objects, columns(objects, row_meta(meta)))
        given_windows = columns(objects, row_meta(found)).windows
        for value, a, b in zip(objects, wanted, given_windows, strict=True):
            verify_windows(self._step_name, value, a, b)


def explode(values: list[Value], old: Columns) -> tuple[list[Value], Columns]:
    """Give each value once for each of its windows, as a DoFn that looks at the window sees it."""
    origin = [i for i, windows in enumerate(old.windows) for _ in windows]
    single = [(w,) for windows in old.windows for w in windows]
    picked = pick(old, origin)
    return [values[i] for i in origin], picked._replace(windows=single)


def assigner(
    window_fn: WindowFn, grid: _Grid | None = None
) -> Callable[[list[Value], Columns], list[Value]]:
    """Give a function that finds the windows of each value."""
    grid = grid or _grid_of(window_fn)
    if grid is not None:
        known, period, offset = grid.known, grid.period, grid.offset
        return lambda _, old: [known[t - (t - offset) % period] for t in old.times]
    if type(window_fn) is window.GlobalWindows:
        return lambda values, _: [GLOBAL] * len(values)

    def general(values: list[Value], old: Columns) -> list[Value]:
        context = window.WindowFn.AssignContext
        return [
            given(window_fn.assign(context(moment_of(t), v, w[0])))
            for v, t, w in zip(values, old.times, old.windows, strict=True)
        ]

    return general


def column_assigner(
    window_fn: WindowFn, grid: _Grid | None = None
) -> Callable[[Meta], Meta | None] | None:
    """Give a function from the meta of columns to that with new windows; None: there is none.

    It gives None for times so far out that 64 bits do not hold what is computed with them.
    """
    if type(window_fn) is window.GlobalWindows:
        return _all_in_one
    grid = grid or _grid_of(window_fn)
    return None if grid is None else grid.assign


def _all_in_one(meta: Meta) -> Meta:
    if type(meta) is TimeColumns:
        return TimeColumns(meta.times, GLOBAL, PANE_INFO_UNKNOWN)
    return windowed_value.create(None, meta.timestamp_micros, GLOBAL, PANE_INFO_UNKNOWN)


class _Grid(NamedTuple):
    """Windows that begin every so often; the first ones that hold a moment name them all."""

    known: _WindowCache
    period: int
    offset: int

    def assign(self, meta: Meta) -> Meta | None:
        """Give a batch of columns its windows."""
        if type(meta) is not TimeColumns:
            time = meta.timestamp_micros
            windows = self.known[time - (time - self.offset) % self.period]
            return windowed_value.create(None, time, windows, PANE_INFO_UNKNOWN)
        times, reach = meta.times, abs(self.offset) + self.period
        if int(times.min()) - reach < -_LAST_MICRO or int(times.max()) + reach > _LAST_MICRO:
            return None
        starts = times - (times - self.offset) % self.period
        return TimeColumns(times, Started(starts, self.known), PANE_INFO_UNKNOWN)


_LAST_MICRO = (1 << 63) - 1


def _grid_of(window_fn: Any) -> _Grid | None:
    """Give the grid of fixed and sliding windows, and that of sessions: a window at any moment."""
    if type(window_fn) is window.FixedWindows:
        size = window_fn.size.micros
        known = _WindowCache(lambda start: Assigned((_interval(start, start + size),)))
        return _Grid(known, size, window_fn.offset.micros)
    if type(window_fn) is window.SlidingWindows:
        size, period = window_fn.size.micros, window_fn.period.micros

        def cover(start: int) -> Assigned:
            starts = range(start, start - size, -period)
            return Assigned(_interval(s, s + size) for s in starts)

        if size % period == 0:  # else the number of windows depends on the moment itself
            return _Grid(_WindowCache(cover), period, window_fn.offset.micros)
    if type(window_fn) is window.Sessions:
        gap = window_fn.gap_size.micros
        opened = _WindowCache(lambda start: Assigned((_interval(start, start + gap),)), MAX_SPANS)
        return _Grid(opened, 1, 0)
    return None


class _WindowCache(dict[int, Assigned]):
    """Windows by start; forgets all when it grows past any sensible number of live windows."""

    def __init__(
        self, make: Callable[[int], Assigned], most: int = MAX_KNOWN_WINDOWS
    ) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, start: int) -> Assigned:
        if len(self) > self._most:
            self.clear()
        found = self[start] = self._make(start)
        return found


def _interval(start: int, end: int) -> Interval:
    return window.IntervalWindow(moment_of(start), moment_of(end))  # type: ignore[no-any-return]
