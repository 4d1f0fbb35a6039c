"""Holds elements until the watermark has passed them, and gives them in the order of event time.

Takes batches, gives batches in order: by time, at one time by arrival. What an epoch brings and
releases is never encoded; what stays, or outgrows memory, becomes rows (see `entries`) that a store
or a disk keeps (`rows`). Sorts whole batches and runs no user code.

An element is due at its time, or at the last moment of its window if its time lies behind it. With
allowed lateness everything waits that much longer: an element that comes late, and in time, still
finds its place (docs/decisions/2026-11-16-order-of-event-time.md).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from apache_beam.transforms.window import GlobalWindow

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.worker.batched.batches import Columns, Meta, columns
from headrace.worker.batched.weights import SAMPLE_VALUES, weight
from headrace.worker.batched.window_keys import last_moment
from headrace.worker.beam_types import Pane, Value, Windows
from headrace.worker.grouping.grouper import held_at
from headrace.worker.sorting.entries import (
    ROW_ELEMENTS,
    Entries,
    Entry,
    Row,
    extend,
    in_order,
    nothing,
)

#: What an element costs in memory beside the texts in it; used to bound memory, not to measure.
HELD_BYTES = 200
#: Numbers of arrival in one epoch; an epoch's number stands before them.
_EPOCH_NUMBERS = 1 << 40

_EVERYWHERE = GlobalWindow()
_LAST_OF_ALL = last_moment(_EVERYWHERE)
_place = itemgetter(0, 1, 2)
_first = itemgetter(0)


class Rows(Protocol):
    """Keeps rows in the order of what is due first in them."""

    def write(self, rows: Iterator[Row]) -> None:
        """Keep rows; they come in their order."""

    def take(self, bound: int) -> Iterator[tuple[int, bytes]]:
        """Give the rows whose first element is due before `bound`, in order; forget them.

        With each the moment by which it is ordered: nothing in it is due before.
        """

    def first(self) -> int | None:
        """Say when the first element of all is due; None: there is none."""


class TimeSorter:
    """The elements of one ParDo on one shard that wait for their turn."""

    def __init__(self, entries: Entries, rows: Rows, lateness: int, memory_bytes: int) -> None:
        """Describe a ParDo.

        Args:
            entries: encodes its elements.
            rows: keeps what does not stay in memory.
            lateness: microseconds that elements may come behind the watermark.
            memory_bytes: what elements in memory may take, about.
        """
        self._entries = entries
        self._rows = rows
        self._lateness = lateness
        self._memory = memory_bytes
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Begin an epoch; what one that failed left in memory is forgotten."""
        self._number = epoch * _EPOCH_NUMBERS
        self._later = nothing()  # read from rows that were due in part
        self._forget()

    def _forget(self) -> None:
        self._used = 0
        self._dues: list[int] = []
        self._values: list[Value] = []
        self._times: list[int] = []
        self._windows: list[Windows] = []
        self._panes: list[Pane] = []

    # -- input

    def add(self, values: list[Value], meta: Meta) -> None:
        """Let elements wait."""
        found = columns(values, meta)
        self._dues += _dues(found.times, found.windows)
        self._values += values
        self._times += found.times
        self._windows += found.windows
        self._panes += found.panes
        sample = values[:: max(1, len(values) // SAMPLE_VALUES)]
        self._used += len(values) * (HELD_BYTES + weight(sample) // len(sample))
        if self._used > self._memory:
            self.pack()

    # -- output

    def release(self, watermark: int, most: int) -> Iterator[tuple[list[Value], Columns]]:
        """Give what is due, in order, in batches of at most so many; use it up.

        Args:
            watermark: of the input; an element leaves when its time and the lateness are before.
            most: elements of a batch.
        """
        bound = MAX_TIME + 1
        if watermark < MAX_TIME:
            bound = max(MIN_TIME, watermark - self._lateness)
        order = self._order()
        cut = bisect_left(order, bound, key=self._dues.__getitem__)
        due = order[:cut]
        fresh = self._dues, self._times, self._values, self._windows, self._panes
        held: tuple[list[Any], ...] = fresh
        self._dues, self._times, self._values, self._windows, self._panes = (
            [column[i] for i in order[cut:]] for column in held
        )
        self._used = self._used * (len(order) - cut) // max(1, len(order))
        stored = self._rows.take(bound)
        row = next(stored, None)
        if row is None:
            dues, times, values, windows, panes = fresh
            for begin in range(0, cut, most):
                part = due[begin : begin + most]
                yield [values[i] for i in part], Columns(
                    [times[i] for i in part], [windows[i] for i in part], [panes[i] for i in part]
                )
            return
        first = self._number
        self._number += len(due)
        numbers = range(first, self._number)
        entries = zip(*_chosen(fresh, due, numbers), strict=True)
        yield from self._merged(chain((row,), stored), list(entries), bound, most)

    def _order(self) -> list[int]:
        """Give the positions of the elements in memory in the order of their places."""
        dues, times = self._dues, self._times
        if dues == times:
            return sorted(range(len(dues)), key=dues.__getitem__)
        return sorted(range(len(dues)), key=lambda i: (dues[i], times[i]))

    def _merged(
        self, stored: Iterator[tuple[int, bytes]], fresh: list[Entry], bound: int, most: int
    ) -> Iterator[tuple[list[Value], Columns]]:
        """Merge rows and what is in memory.

        Both come in parts, by what is due first in them. What is before all of the next part can
        go, so that memory holds the parts that overlap and no more.
        """
        read, later = self._entries.read, self._later
        parts = heapq.merge(
            ((first, read(row, bound, later)) for first, row in stored),
            (
                (fresh[begin][0], fresh[begin : begin + ROW_ELEMENTS])
                for begin in range(0, len(fresh), ROW_ELEMENTS)
            ),
            key=_first,
        )
        waiting: list[Entry] = []
        ready: list[Entry] = []
        for first, part in parts:
            cut = bisect_left(waiting, first, key=_first)
            ready += waiting[:cut]
            waiting = sorted(waiting[cut:] + part, key=_place)
            if len(ready) >= most:
                yield from _batches(ready, most)
                ready = []
        yield from _batches(ready + waiting, most)

    def hold(self) -> int:
        """Say, after `release`, what the output watermark may not pass: the oldest that waits."""
        times = [min(self._dues)] if self._dues else []
        times += self._later[0]
        stored = self._rows.first()
        if stored is not None:
            times.append(stored)
        return held_at(min(times, default=MAX_TIME))

    # -- keeping

    def pack(self) -> None:
        """Make rows of all that is in memory."""
        if not (self._dues or self._later[0]):
            return
        order = self._order()
        # Elements of one place stand in the order of arrival: any numbers that grow will do.
        numbers = range(self._number, self._number + len(order))
        self._number = numbers.stop
        fresh = self._dues, self._times, self._values, self._windows, self._panes
        raw = self._entries.encoded(*_chosen(fresh, order, numbers)) if order else nothing()
        if self._later[0]:
            extend(self._later, raw)
            raw, self._later = in_order(self._later), nothing()
        self._forget()
        self._rows.write(self._entries.rows(raw))


def _chosen(
    fresh: tuple[list[int], list[int], list[Value], list[Value], list[Value]],
    order: list[int],
    numbers: range,
) -> tuple[list[int], list[int], range, list[Value], list[Value], list[Value]]:
    """Give the columns of entries at these positions."""
    dues, times, values, windows, panes = ([column[i] for i in order] for column in fresh)
    return dues, times, numbers, values, windows, panes


def _batches(ready: list[Entry], most: int) -> Iterator[tuple[list[Value], Columns]]:
    for begin in range(0, len(ready), most):
        _, times, _, values, windows, panes = zip(*ready[begin : begin + most], strict=True)
        yield list(values), Columns(list(times), list(windows), list(panes))


def _dues(times: list[int], windows: Sequence[Windows]) -> list[int]:
    """Say when elements are due: at their times, but not after the last moments of their windows.

    Nearly always the first: a window contains its elements unless a step gave them other times.
    """
    ids = set(map(id, map(_first, windows)))
    if ids == {id(_EVERYWHERE)} and max(times) <= _LAST_OF_ALL:
        return times
    known: dict[int, int] = {}
    dues = []
    for time, given in zip(times, windows, strict=True):
        last = known.get(id(given))
        if last is None:
            last = known[id(given)] = min(map(last_moment, given))
        dues.append(time if time <= last else last)
    return dues
