"""Values that travel together inside a stage, and what is known of each: time, windows, pane.

A batch is (values, meta). Meta is either one windowed value that stands for all (its own value is
ignored), or `Columns`, one entry per value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value

from headrace.worker.beam_types import Pane, Value, Window, Windows

#: Values in one batch: enough to make a Python call per batch cheap, few enough to stay in cache.
BATCH_VALUES = 2_048


class Columns(NamedTuple):
    """Time (microseconds), windows and pane of each value of a batch; in order, its number too."""

    times: list[int]
    windows: Sequence[Windows]
    panes: Sequence[Pane]
    numbers: Sequence[int] | None = None  # of what caused it; None: the run is not ordered


Meta = Any  # WindowedValue | Columns; not a union, as Beam's class is untyped


class Assigned(tuple[Window, ...]):
    """Windows that a window function gave: Beam would hold them in a list.

    In a batched chain they are a tuple, as all elements of a window share one object, and Beam
    multiplies lists in place.
    """

    __slots__ = ()


GLOBAL = Assigned((GlobalWindow(),))


def elements(values: list[Value], meta: Meta, *, lists: bool = False) -> Iterable[Value]:
    """Give the batch as windowed values.

    Args:
        values: of the batch.
        meta: of the batch.
        lists: give each element whose windows Beam would hold in a list a list of its own; costs
            time, and only a DoFn that looks at whole windowed values can tell.
    """
    if lists:
        return _with_lists(values, columns(values, meta))
    if type(meta) is Columns:
        create = windowed_value.create
        return [
            create(v, t, w, p)
            for v, t, w, p in zip(values, meta.times, meta.windows, meta.panes, strict=True)
        ]
    return map(meta.with_value, values)


def _with_lists(values: list[Value], meta: Columns) -> Iterable[Value]:
    create = windowed_value.create
    return [
        create(v, t, list(w) if type(w) in (Assigned, list) else w, p)
        for v, t, w, p in zip(values, meta.times, meta.windows, meta.panes, strict=True)
    ]


def batch_of(found: list[Value]) -> tuple[list[Value], Meta]:
    """Make a batch of windowed values; one meta for all where they agree."""
    first = found[0]
    values = [e.value for e in found]
    if len(found) == 1:
        return values, first
    times = [e.timestamp_micros for e in found]
    windows = [e.windows for e in found]
    panes = [e.pane_info for e in found]
    size = len(found)
    if (
        times.count(times[0]) == size
        and windows.count(windows[0]) == size
        and panes.count(panes[0]) == size
    ):
        return values, first
    return values, Columns(times, windows, panes)


def columns(values: list[Value], meta: Meta) -> Columns:
    """Give one entry per value, whatever the meta is."""
    if type(meta) is Columns:
        return meta
    size = len(values)
    return Columns(
        [meta.timestamp_micros] * size, [meta.windows] * size, [meta.pane_info] * size
    )


def numbered(values: list[Value], meta: Meta, numbers: Sequence[int]) -> Columns:
    """Give the meta of values with the order numbers of what caused them."""
    return columns(values, meta)._replace(numbers=numbers)


def pick(meta: Meta, chosen: list[int]) -> Meta:
    """Give the meta of the values at these positions; a position may come more than once."""
    if type(meta) is not Columns:
        return meta
    times, windows, panes, numbers = meta
    size = len(chosen)
    if size and chosen[-1] - chosen[0] == size - 1:
        first, end = chosen[0], chosen[-1] + 1
        if chosen == list(range(first, end)):  # neighbours, as where each value gives one result
            if size == len(times):
                return meta
            return Columns(
                times[first:end], windows[first:end], panes[first:end],
                None if numbers is None else numbers[first:end],
            )
    return Columns(
        [times[i] for i in chosen], [windows[i] for i in chosen], [panes[i] for i in chosen],
        None if numbers is None else [numbers[i] for i in chosen],
    )


def in_millis(meta: Meta) -> Meta:
    """Cut times to whole milliseconds, towards zero, as Beam's coder does on every way."""
    if type(meta) is Columns:
        return meta._replace(times=[_cut(time) for time in meta.times])
    time = _cut(meta.timestamp_micros)
    if time == meta.timestamp_micros:
        return meta
    return windowed_value.create(None, time, meta.windows, meta.pane_info)


def _cut(micros: int) -> int:
    return micros - micros % 1_000 if micros >= 0 else micros + -micros % 1_000
