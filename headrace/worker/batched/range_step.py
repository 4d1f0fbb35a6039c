"""A ParDo that goes through ranges of ints: their numbers are columns from the beginning.

Takes batches of elements, gives batches of columns of a bounded size, whatever the ranges are. What
the kernel is not sure of goes through the user's own function: its outputs take the place of the
rest of the element's. Where nobody behind it takes columns, or few rows come of a batch, and in
ordered runs, the user's function runs on objects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from headrace.plan.lowered_steps import Ranged
from headrace.plan.shapes import ScalarKind
from headrace.worker.batched.batches import Columns, Meta, pick
from headrace.worker.batched.chains import Edge, pick_one
from headrace.worker.batched.column_batches import (
    COLUMN_ROWS,
    Node,
    TimeColumns,
    as_rows,
    chosen,
    part_of,
    row_meta,
    timed,
)
from headrace.worker.batched.ranges import LEAST_ROWS, Chunk, chunk_of, parts_of
from headrace.worker.batched.step_nodes import step_node
from headrace.worker.batched.steps import Results, Step
from headrace.worker.beam_types import Operation, Value
from headrace.worker.checks.verified_columns import verify_outputs
from headrace.worker.columns.column import Column
from headrace.worker.columns.kernels import Kernel, Outcome, kernel_of
from headrace.worker.columns.lazy import LazyColumn
from headrace.worker.columns.values import ColumnValues, of_objects

_LOG = logging.getLogger(__name__)


class RangeStep:
    """A ParDo that goes through a range for each element.

    Args:
        ranged: what its function was found to compute.
        step: the function itself.
        rows: the same ParDo for batches of objects.
        op: Beam's operation.
        step_name: for exceptions.
        edge: where outputs go.
        verified: everything is computed in both ways, and compared.
    """

    def __init__(
        self,
        ranged: Ranged,
        step: Step,
        rows: Node,
        op: Operation,
        step_name: str,
        edge: Edge,
        *,
        verified: bool = False,
    ) -> None:
        self._ranged = ranged
        self._bounds = kernel_of(ranged.bounds)
        self._body = kernel_of(ranged.body)
        self._step = step
        self._rows = rows
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._edge = edge
        self._verified = verified
        self._gave_up = False  # a kernel has failed
        self._passed = 0  # outputs of the next element for `_rest` that went on already
        resumed = Step(function=self._resumed, results=Results.FLAT)
        self._rest = step_node(resumed, op, step_name, edge)

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        ranges = self._ranges(values, meta)
        if ranges is None:
            self._rows(values, meta)
            return
        whole, bounds = ranges
        start = 0
        for found, size in _runs(bounds, meta):
            its = pick(meta, list(range(start, start + size)))
            if found is None:
                self._rows(values[start : start + size], its)
            elif len(found) > COLUMN_ROWS:
                self._large(whole.slice(start, start + 1), found, pick_one(its))
            else:
                some = [r for r in bounds[start : start + size] if r is not None]
                self._small(whole.slice(start, start + size), some, _in_columns(its))
            start += size

    @property
    def takes_columns(self) -> bool:
        """Whether who comes behind takes columns."""
        return self._edge.takes_columns

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns: far more rows come of them than they are."""
        for part, its in as_rows(values, meta):
            self(part, its)

    def _ranges(
        self, values: list[Value], meta: Meta
    ) -> tuple[ColumnValues, list[range | None]] | None:
        """Give each element's range, None where Python has to make it; None: stay with objects."""
        if self._gave_up or not self._edge.takes_columns:
            return None
        if type(meta) is Columns and meta.numbers is not None:
            return None
        if self._ranged.body.micros is not None and not _in_one_window(meta):
            return None
        given = of_objects(values, self._ranged.shape)
        if given is None:
            return None
        with self._state:
            outcome = self._run(self._bounds, given)
        if outcome is None:
            return None
        back = set() if outcome.back is None else set(outcome.back.tolist())
        columns = [leaf.data.tolist() for leaf in outcome.values.leaves]
        made: list[range | None] = []
        total = 0
        for i, (first, stop, step) in enumerate(zip(*columns, strict=True)):
            sure = i not in back and step and abs(stop - first) // abs(step) < 1 << 62
            found = range(first, stop, step) if sure else None
            total += len(found) if found is not None else 0
            made.append(found)
        return None if total < LEAST_ROWS else (given, made)

    def _run(self, kernel: Kernel, given: ColumnValues) -> Outcome | None:
        """Run a kernel; None if it failed: from then on everything is computed on objects."""
        try:
            return kernel(given)
        except Exception as error:
            if self._verified:
                raise
            self._gave_up = True
            _LOG.warning(
                "step %s runs on objects from here on: computing it on columns failed, which "
                "is a fault of headrace's (--columns=off avoids it): %r",
                self._step_name, error,
            )
            return None

    # One large range ------------------------------------------------------------------------------

    def _large(self, element: ColumnValues, numbers: range, meta: Meta) -> None:
        sure = (self._is_sure(element, part) for part in parts_of(numbers))
        if self._ranged.atomic and not all(sure):
            self._by_function(element, meta, 0)
            return
        wanted = self._outputs(element)
        passed = 0
        for part in parts_of(numbers):
            chunk = chunk_of([part])
            outcome = self._outcome(element, chunk)
            if outcome is None:
                self._by_function(element, meta, passed)
                return
            end = len(part) if outcome.back is None else int(outcome.back[0])
            self._verify(element, wanted, outcome, 0, end)
            passed += self._hand_on(outcome, chunk, meta, 0, end)
            if end < len(part):
                self._by_function(element, meta, passed)
                return

    def _is_sure(self, element: ColumnValues, part: range) -> bool:
        outcome = self._outcome(element, chunk_of([part]))
        return outcome is not None and outcome.back is None

    # Several small ranges -------------------------------------------------------------------------

    def _small(self, elements: ColumnValues, ranges: Sequence[range], meta: Meta) -> None:
        chunk = chunk_of(ranges)
        outcome = self._outcome(elements, chunk)
        if outcome is None:
            for part, its in as_rows(elements, meta):
                self._rows(part, its)
            return
        done = 0
        back = np.zeros(0, np.int64) if outcome.back is None else outcome.back
        unsure = np.unique(chunk.origin[back]).tolist()
        for place in range(len(elements)) if self._verified else ():
            first, end = chunk.of(place)
            one = elements.slice(place, place + 1)
            if place not in unsure:
                self._verify(one, self._outputs(one), outcome, first, end)
        for place in unsure:
            first, end = chunk.of(place)
            self._hand_on(outcome, chunk, meta, done, first)
            passed = 0
            if not self._ranged.atomic:
                bad = int(back[np.searchsorted(back, first)])
                passed = self._hand_on(outcome, chunk, meta, first, bad)
            its = part_of(meta, place, place + 1)
            self._by_function(elements.slice(place, place + 1), its, passed)
            done = end
        self._hand_on(outcome, chunk, meta, done, len(chunk.numbers))

    # Chunks ---------------------------------------------------------------------------------------

    def _outcome(self, elements: ColumnValues, chunk: Chunk) -> Outcome | None:
        if self._gave_up:
            return None
        leaves = [
            # Most functions look at few of an element's fields.
            LazyColumn(leaf.kind, len(chunk.origin), partial(leaf.take, chunk.origin))
            for leaf in elements.leaves
        ]
        numbers = Column(ScalarKind.INT, chunk.numbers)
        shape = self._ranged.body.shape
        with self._state:
            return self._run(self._body, ColumnValues(shape, [numbers, *leaves]))

    def _hand_on(
        self, outcome: Outcome, chunk: Chunk, meta: Meta, start: int, end: int
    ) -> int:
        """Hand some of the outputs on; give how many there are."""
        values, keep, times = outcome.values, outcome.keep, outcome.times
        if start or end < len(values):
            values = values.slice(start, end)
            keep = None if keep is None else keep[start:end]
            times = None if times is None else times[start:end]
        meta = timed(chosen(meta, chunk.origin[start:end]), times)
        if keep is not None and not keep.all():
            values, meta = values.filter(keep), chosen(meta, keep)
        self._edge.columns(values, meta)
        return len(values)

    def _by_function(self, element: ColumnValues, meta: Meta, passed: int) -> None:
        """Let the user's function give the outputs of an element behind the first so many."""
        self._passed = passed
        self._rest(element.objects(), row_meta(meta))

    def _resumed(self, value: Value) -> Iterator[Value]:
        return islice(iter(self._step.function(value)), self._passed, None)

    # Both ways ------------------------------------------------------------------------------------

    def _outputs(self, element: ColumnValues) -> Iterator[Value]:
        """Give what the user's function gives for an element, where somebody compares it."""
        return iter(self._step.function(element.objects()[0])) if self._verified else iter(())

    def _verify(
        self, element: ColumnValues, wanted: Iterator[Value], outcome: Outcome, start: int, end: int
    ) -> None:
        if self._verified:
            with self._state:
                verify_outputs(self._step_name, element.objects()[0], wanted, outcome, start, end)


def _runs(bounds: Sequence[range | None], meta: Meta) -> Iterator[tuple[range | None, int]]:
    """Give neighbours that make one chunk: the range of the first, and how many there are."""
    start = 0
    while start < len(bounds):
        found, end = bounds[start], start + 1
        size = COLUMN_ROWS if found is None else len(found)
        while end < len(bounds) and (near := bounds[end]) is not None:
            if size + len(near) > COLUMN_ROWS or not _alike(meta, start, end):
                break
            size += len(near)
            end += 1
        yield found, end - start
        start = end


def _in_one_window(meta: Meta) -> bool:
    if type(meta) is not Columns:
        return len(meta.windows) == 1
    return all(len(windows) == 1 for windows in meta.windows)


def _alike(meta: Meta, a: int, b: int) -> bool:
    """Whether two elements stand in the same windows, with the same pane."""
    if type(meta) is not Columns:
        return True
    return bool(meta.windows[a] == meta.windows[b] and meta.panes[a] == meta.panes[b])


def _in_columns(meta: Meta) -> Meta:
    """Give the meta of elements that are alike."""
    if type(meta) is not Columns:
        return meta
    return TimeColumns(np.array(meta.times, np.int64), meta.windows[0], meta.panes[0])
