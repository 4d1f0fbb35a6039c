"""Assigns windows to whole batches; equal windows are one object.

Takes a window function, gives a node of a batched chain. The common window functions are computed
on the microseconds alone, the others are asked value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.worker.batched.batches import Assigned, Columns, Meta, columns, pick
from headrace.worker.batched.chains import GLOBAL, Edge, Node, augment, given
from headrace.worker.beam_types import Operation, Value

#: Windows remembered by their start; more than any pipeline has open at once.
MAX_KNOWN_WINDOWS = 100_000


def windows_node(window_fn: Any, op: Operation, step_name: str, edge: Edge) -> Node:
    """Window assignment for a whole batch; equal windows are one object."""
    assign = assigner(window_fn)
    state = op.scoped_process_state

    def run(values: list[Value], meta: Meta) -> None:
        with state:
            try:
                old = columns(values, meta)
                if any(len(w) != 1 for w in old.windows):
                    values, old = explode(values, old)
                found = assign(values, old)
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, step_name)
        edge(
            values,
            Columns(old.times, found, [PANE_INFO_UNKNOWN] * len(values), old.numbers),
        )

    return run


def explode(values: list[Value], old: Columns) -> tuple[list[Value], Columns]:
    """Give each value once for each of its windows, as a DoFn that looks at the window sees it."""
    origin = [i for i, windows in enumerate(old.windows) for _ in windows]
    single = [(w,) for windows in old.windows for w in windows]
    picked = pick(old, origin)
    return [values[i] for i in origin], picked._replace(windows=single)


def assigner(window_fn: Any) -> Callable[[list[Value], Columns], list[Value]]:
    """Give a function that finds the windows of each value."""
    if type(window_fn) is window.FixedWindows:
        size, offset = window_fn.size.micros, window_fn.offset.micros
        cache = _WindowCache(lambda start: Assigned((_interval(start, start + size),)))
        return lambda _, old: [cache[t - (t - offset) % size] for t in old.times]
    if type(window_fn) is window.SlidingWindows:
        size, period = window_fn.size.micros, window_fn.period.micros
        offset = window_fn.offset.micros

        def cover(start: int) -> tuple[Any, ...]:
            starts = range(start, start - size, -period)
            return Assigned(_interval(s, s + size) for s in starts)

        if size % period == 0:  # else the number of windows depends on the moment itself
            sliding = _WindowCache(cover)
            return lambda _, old: [sliding[t - (t - offset) % period] for t in old.times]
    if type(window_fn) is window.GlobalWindows:
        return lambda values, _: [GLOBAL] * len(values)

    def general(values: list[Value], old: Columns) -> list[Value]:
        context = window.WindowFn.AssignContext
        return [
            given(
                window_fn.assign(context(windowed_value.create(v, t, w, p).timestamp, v, w[0]))
            )
            for v, t, w, p in zip(values, old.times, old.windows, old.panes, strict=True)
        ]

    return general


class _WindowCache(dict[int, tuple[Any, ...]]):
    """Windows by start; forgets all when it grows past any sensible number of live windows."""

    def __init__(self, make: Callable[[int], tuple[Any, ...]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, start: int) -> tuple[Any, ...]:
        if len(self) > MAX_KNOWN_WINDOWS:
            self.clear()
        found = self[start] = self._make(start)
        return found


def _interval(start: int, end: int) -> Any:
    return window.IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
