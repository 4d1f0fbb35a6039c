"""A ParDo whose function was lowered to expressions: it runs on columns, and stays exact.

Takes batches of columns, gives batches of columns. The kernel hands back the rows it is not sure
of; they go through the user's own function in their place. Where what that gives does not fit the
columns, the batch becomes objects. Lists of objects take the usual way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.plan.expressions import Lowered
from headrace.plan.shapes import fits
from headrace.worker.batched.batches import BATCH_VALUES, Meta
from headrace.worker.batched.chains import Edge, augment
from headrace.worker.batched.column_batches import (
    Node,
    RowNumbers,
    as_rows,
    chosen,
    each_in_one_window,
    part_of,
    row_meta,
    timed,
    with_windows,
)
from headrace.worker.batched.gather import refuse_text
from headrace.worker.batched.steps import Results, Step
from headrace.worker.beam_types import Operation, Value
from headrace.worker.checks.verified_columns import verify
from headrace.worker.columns.column import Mask
from headrace.worker.columns.kernels import Outcome, kernel_of
from headrace.worker.columns.values import ColumnValues

_LOG = logging.getLogger(__name__)


class Answers(NamedTuple):
    """What the user's function gave for the rows that were handed back."""

    places: RowNumbers  # of the rows, in order
    outputs: list[Sequence[Value]]  # of each of them
    failure: Exception | None  # raised for the row behind the last one


class LoweredStep:
    """A ParDo that runs on columns.

    Args:
        lowered: what its function was found to compute.
        step: the function itself.
        rows: the same ParDo for batches of objects.
        op: Beam's operation.
        step_name: for exceptions.
        edge: where outputs go.
        verified: everything is computed in both ways, and compared.
    """

    takes_columns = True

    def __init__(
        self,
        lowered: Lowered,
        step: Step,
        rows: Node,
        op: Operation,
        step_name: str,
        edge: Edge,
        *,
        verified: bool = False,
    ) -> None:
        self._lowered = lowered
        self._kernel = kernel_of(lowered)
        self._step = step
        self._rows = rows
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._edge = edge
        self._verified = verified
        self._gave_up = False  # the kernel has failed

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        self._rows(values, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        outcome = None
        given: ColumnValues | None = values
        if self._lowered.window:
            given = with_windows(values, meta)
        if given is not None and given.shape != self._lowered.shape:
            given = self._fitted(given)
        if self._lowered.micros is not None and not each_in_one_window(meta):
            given = None  # the time it gives would stand in all of them
        if given is not None and not self._gave_up:
            outcome = self._computed(given, values, meta)  # the shape was a promise
        asks = outcome is not None and outcome.back is not None and self._lowered.window
        if outcome is None or asks:  # who sees windows is told of whole batches
            for part, its in as_rows(values, meta):
                self._rows(part, its)
        elif outcome.back is None:
            self._hand_on(outcome.values, outcome.keep, timed(meta, outcome.times))
        else:
            self._with_answers(values, outcome, outcome.back, meta)

    def _fitted(self, given: ColumnValues) -> ColumnValues | None:
        """Give the same values in the shape that the kernel takes; None: they are others."""
        wanted = self._lowered.shape
        return ColumnValues(wanted, given.leaves, len(given)) if fits(given.shape, wanted) else None

    def _computed(
        self, given: ColumnValues, values: ColumnValues, meta: Meta
    ) -> Outcome | None:
        """Run the kernel; None if it failed: from then on all rows go to the user's function."""
        with self._state:
            try:
                outcome = self._kernel(given)
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
            asks = self._step.begin is not None
            if self._verified and not (asks and outcome.back is not None):
                if self._step.begin is not None:
                    self._step.begin(values.objects(), row_meta(meta))
                verify(self._step_name, values, outcome, self._outputs)
        return outcome

    def _hand_on(self, values: ColumnValues, keep: NDArray[np.bool_] | None, meta: Meta) -> None:
        if keep is not None and not keep.all():
            values, meta = values.filter(keep), chosen(meta, keep)
        self._edge.columns(values, meta)

    def _with_answers(
        self, values: ColumnValues, outcome: Outcome, back: RowNumbers, meta: Meta
    ) -> None:
        answers = self._asked(values, back)
        meta = timed(meta, outcome.times)
        results, keep, end = outcome.values, outcome.keep, len(values)
        if answers.failure is not None:  # what came before it had its effect
            end = int(back[len(answers.places)])
            results = results.slice(0, end)
            keep = None if keep is None else keep[:end]
            meta = part_of(meta, 0, end)
        self._put(results, keep, answers, meta)
        if answers.failure is not None:
            try:
                raise answers.failure
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, self._step_name)

    def _asked(self, values: ColumnValues, back: RowNumbers) -> Answers:
        """Run the user's function for some rows, up to the first for which it fails."""
        found: list[Sequence[Value]] = []
        with self._state:
            for value in values.take(back).objects():
                try:
                    found.append(self._outputs(value))
                except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                    return Answers(back[: len(found)], found, error)
        return Answers(back, found, None)

    def _outputs(self, value: Value) -> Sequence[Value]:
        """Give what the user's function gives for an element, whatever form it gives it in."""
        match self._step.results:
            case Results.ONE:
                return (self._step.function(value),)
            case Results.KEEP:
                return (value,) if self._step.function(value) else ()
            case _:
                outputs: Iterable[Value] | None = self._step.function(value)
                if outputs is None:
                    return ()
                if self._step.results is Results.MANY:
                    refuse_text(outputs)
                return list(outputs)

    def _put(
        self,
        results: ColumnValues,
        keep: NDArray[np.bool_] | None,
        answers: Answers,
        meta: Meta,
    ) -> None:
        """Put answers into their places, and hand everything on."""
        counts = np.fromiter(map(len, answers.outputs), np.int64, len(answers.outputs))
        if self._lowered.micros is None and (counts <= 1).all():
            put: ColumnValues | None = results
            if self._lowered.gives is not None:  # else the outputs are the elements themselves
                filled = answers.places[counts == 1]
                put = results.put(filled, [given[0] for given in answers.outputs if given])
            if put is not None:
                if (counts == 0).any() or keep is not None:
                    size = len(results)
                    keep = np.ones(size, np.bool_) if keep is None else keep.copy()
                    keep[answers.places] = counts == 1
                self._hand_on(put, keep, meta)
                return
        self._as_objects(results, keep, answers, meta)

    def _as_objects(
        self, results: ColumnValues, keep: Mask | None, answers: Answers, meta: Meta
    ) -> None:
        """Hand everything on as objects, as one of the answers is no part of the columns."""
        given = dict(zip(answers.places.tolist(), answers.outputs, strict=True))
        wanted = [True] * len(results) if keep is None else keep.tolist()
        out: list[Value] = []
        origin: list[int] = []
        for i, result in enumerate(results.objects()):
            outputs = given.get(i)
            if outputs is None:
                outputs = (result,) if wanted[i] else ()
            out += outputs
            origin += [i] * len(outputs)
        of_all = chosen(meta, np.array(origin, np.int64))
        for start in range(0, len(out), BATCH_VALUES):
            part = out[start : start + BATCH_VALUES]
            self._edge.results(part, row_meta(part_of(of_all, start, start + len(part))))
