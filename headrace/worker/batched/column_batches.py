"""Batches of columns inside a stage: their times and windows as arrays, and the way to objects.

A batch of columns is `ColumnValues` and a meta: one windowed value for all, or `TimeColumns`. Where
a step takes objects, the batch becomes lists here, in parts of the usual size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard, final

import numpy as np
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from numpy.typing import NDArray

from headrace.plan.expressions import WINDOW
from headrace.plan.shapes import ScalarKind, TupleShape
from headrace.worker.batched.batches import BATCH_VALUES, GLOBAL, Columns, Meta, in_millis
from headrace.worker.beam_types import Element, Pane, Value, Windows
from headrace.worker.columns.column import Column, Mask
from headrace.worker.columns.values import ColumnValues

Micros: TypeAlias = NDArray[np.int64]
RowNumbers: TypeAlias = NDArray[np.int64]

#: Rows of one batch of columns: enough that a call per batch and column costs nothing, and few
#: enough that the columns of a batch stay in cache.
COLUMN_ROWS = 32_768
#: Neighbours of one time and window that are worth a batch of objects of their own.
RUN_ROWS = 32


@final
class Started(NamedTuple):
    """Windows that differ from value to value; values with the same start share them."""

    starts: Micros
    known: Mapping[int, Windows]  # start -> windows, made when they are first asked for


class TimeColumns(NamedTuple):
    """Times in microseconds, windows and pane of the values of a batch of columns."""

    times: Micros
    windows: Started | Windows  # the latter where all values share them
    pane: Pane  # of all values


#: A step of a batched chain.
Node = Callable[[list[Value], Meta], None]


class ColumnNode(Protocol):
    """A step that takes batches of columns beside lists."""

    @property
    def takes_columns(self) -> bool:
        """Whether it is the better for it: it keeps columns, or ends with them."""

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""


def keeps_columns(node: Node) -> TypeGuard[ColumnNode]:
    """Whether a step is to be given columns as they are."""
    return bool(getattr(node, "takes_columns", False))


def part_of(meta: Meta, start: int, end: int) -> Meta:
    """Give the meta of neighbouring values."""
    if type(meta) is not TimeColumns:
        return meta
    windows = meta.windows
    if type(windows) is Started:
        windows = Started(windows.starts[start:end], windows.known)
    return TimeColumns(meta.times[start:end], windows, meta.pane)


def chosen(meta: Meta, places: RowNumbers | Mask) -> Meta:
    """Give the meta of the values at these places, or where a mask is true."""
    if type(meta) is not TimeColumns:
        return meta
    windows = meta.windows
    if type(windows) is Started:
        windows = Started(windows.starts[places], windows.known)
    return TimeColumns(meta.times[places], windows, meta.pane)


def timed(meta: Meta, times: Micros | None) -> Meta:
    """Give the meta of outputs that were given a time of their own, in the global window."""
    return meta if times is None else TimeColumns(times, GLOBAL, PANE_INFO_UNKNOWN)


def columns_in_millis(meta: Meta) -> Meta:
    """Cut times to whole milliseconds, towards zero; see `in_millis`."""
    if type(meta) is not TimeColumns:
        return in_millis(meta)
    times = meta.times
    return meta._replace(times=times - np.sign(times) * (np.abs(times) % 1_000))


def row_meta(meta: Meta) -> Meta:
    """Give the meta in the form that goes with a list of values."""
    if type(meta) is not TimeColumns:
        return meta
    times: list[int] = meta.times.tolist()
    size = len(times)
    if type(meta.windows) is Started:
        known = meta.windows.known
        windows = [known[start] for start in meta.windows.starts.tolist()]
    else:
        windows = [meta.windows] * size
    return Columns(times, windows, [meta.pane] * size)


def as_rows(
    values: ColumnValues, meta: Meta, most: int = BATCH_VALUES
) -> Iterator[tuple[list[Value], Meta]]:
    """Give a batch of columns as batches of objects, no larger than those of objects are."""
    size = len(values)
    if size <= most:
        yield from _by_window(values.objects(), meta)
        return
    for start in range(0, size, most):
        end = min(start + most, size)
        yield from _by_window(values.slice(start, end).objects(), part_of(meta, start, end))


def _by_window(objects: list[Value], meta: Meta) -> Iterator[tuple[list[Value], Meta]]:
    """Give objects window by window, where those of a window stand together.

    Steps of objects are the better for a meta that all values share.
    """
    if type(meta) is not TimeColumns or type(meta.windows) is not Started or not objects:
        yield objects, row_meta(meta)
        return
    starts, times = meta.windows.starts, meta.times
    changes = (starts[1:] != starts[:-1]) | (times[1:] != times[:-1])
    if (np.count_nonzero(changes) + 1) * RUN_ROWS > len(objects):
        yield objects, row_meta(meta)
        return
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(objects)]
    for start, end in pairwise(edges):
        windows = meta.windows.known[int(starts[start])]
        one = windowed_value.create(None, int(times[start]), windows, meta.pane)
        yield objects[start:end], one


def first_element(values: ColumnValues, meta: Meta) -> Element:
    """Give the first value of a batch with its time, windows and pane."""
    (value,) = values.slice(0, 1).objects()
    if type(meta) is not TimeColumns:
        return meta.with_value(value)  # type: ignore[no-any-return]
    first = row_meta(part_of(meta, 0, 1))
    return windowed_value.create(value, first.times[0], first.windows[0], first.panes[0])  # type: ignore[no-any-return]


def each_in_one_window(meta: Meta) -> bool:
    """Whether every value of a batch of columns stands in exactly one window."""
    if type(meta) is not TimeColumns:
        return len(meta.windows) == 1
    if type(meta.windows) is Started:
        starts = np.unique(meta.windows.starts).tolist()
        return all(len(meta.windows.known[start]) == 1 for start in starts)
    return len(meta.windows) == 1


def with_windows(values: ColumnValues, meta: Meta) -> ColumnValues | None:
    """Give each value with the start and end of its window; None: it has several, or no such."""
    if not each_in_one_window(meta):
        return None
    windows, size = meta.windows, len(values)
    try:
        if type(windows) is Started:
            starts, places = np.unique(windows.starts, return_inverse=True)
            bounds = [_bounds(windows.known[start][0]) for start in starts.tolist()]
            begins, ends = np.array(bounds, np.int64)[places].T
        else:
            begin, end = _bounds(windows[0])
            begins, ends = np.full(size, begin), np.full(size, end)
    except AttributeError:
        return None  # a window of the user's, which need not lie in time
    leaves = [Column(ScalarKind.INT, np.ascontiguousarray(each)) for each in (begins, ends)]
    shape = TupleShape((values.shape, WINDOW))
    return ColumnValues(shape, [*values.leaves, *leaves], size)


def _bounds(window: Value) -> tuple[int, int]:
    return window.start.micros, window.end.micros
