"""A ParDo that gives nothing and folds its elements into fields of its DoFn.

Takes batches of columns: one fold for each field, on the DoFn that the other methods see. Where a
field is no whole number, or the kernel is not sure of a row, the batch goes through the user's own
function, element by element; so do batches of objects.
"""

from __future__ import annotations

import logging

import numpy as np

from headrace.plan.combines import Fold
from headrace.plan.lowered_steps import Folding
from headrace.plan.shapes import fits
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import Node, as_rows, with_windows
from headrace.worker.beam_operations import DoFn
from headrace.worker.beam_types import Operation, Value
from headrace.worker.checks.verified_columns import verify_fields
from headrace.worker.columns.column import Column, Data
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues

_LOG = logging.getLogger(__name__)


class FoldStep:
    """A ParDo that folds.

    Args:
        folding: what its `process` was found to do.
        fn: the DoFn.
        rows: the same ParDo for batches of objects.
        op: Beam's operation.
        step_name: for messages.
        verified: everything is computed in both ways, and compared.
    """

    takes_columns = True

    def __init__(
        self,
        folding: Folding,
        fn: DoFn,
        rows: Node,
        op: Operation,
        step_name: str,
        *,
        verified: bool = False,
    ) -> None:
        self._folding = folding
        self._kernel = kernel_of(folding.feeds)
        self._fn = fn
        self._rows = rows
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._verified = verified
        self._gave_up = False  # the kernel has failed

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        self._rows(values, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        with self._state:
            found = None if self._gave_up else self._folded(values, meta)
        if found is None or self._verified:
            for part, its in as_rows(values, meta):
                self._rows(part, its)
        if found is not None and self._verified:
            wanted = [getattr(self._fn, name) for name in self._folding.names]
            verify_fields(self._step_name, self._folding.names, wanted, found)
        elif found is not None:
            for name, value in zip(self._folding.names, found, strict=True):
                setattr(self._fn, name, value)

    def _folded(self, values: ColumnValues, meta: Meta) -> list[int] | None:
        """Give what the fields come to; None: the user's function must say."""
        held: list[Value] = [getattr(self._fn, name, None) for name in self._folding.names]
        given = with_windows(values, meta) if self._folding.feeds.window else values
        if given is None or any(type(value) is not int for value in held):
            return None
        wanted = self._folding.shape
        if given.shape != wanted:
            if not fits(given.shape, wanted):
                return None
            given = ColumnValues(wanted, given.leaves, len(given))
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
        if outcome.back is not None or any(_lacks(leaf) for leaf in outcome.values.leaves):
            return None
        pairs = zip(self._folding.folds, held, outcome.values.leaves, strict=True)
        return [_fold(fold, value, leaf) for fold, value, leaf in pairs]


def _lacks(column: Column) -> bool:
    return column.missing is not None and bool(column.missing.any())


def _fold(fold: Fold, held: int, column: Column) -> int:
    """Give what a number comes to with the values of a column, of which there is one at least."""
    data = column.data
    match fold:
        case Fold.SUM:
            return held + total(data)
        case Fold.LEAST:
            return min(held, int(data.min()))
        case Fold.GREATEST:
            return max(held, int(data.max()))


def total(data: Data) -> int:
    """Give the sum of whole numbers or truth values, which may need more than 64 bits."""
    if data.dtype == np.bool_:
        return int(np.count_nonzero(data))
    if max(-int(data.min()), int(data.max())) < (1 << 63) // len(data):
        return int(data.sum())
    return sum(data.tolist())
