"""Computes a lowered function on the columns of a batch.

Takes what the compiler found and columns of the shape that it speaks of, gives columns of the
results and the rows that have to go to the user's own function. Exact by this rule: whatever is not
proven to be what Python gives is handed back. Knows nothing of stages, times and windows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.plan.expressions import Lowered
from headrace.plan.shapes import ScalarKind
from headrace.worker.columns.column import Mask, Positions
from headrace.worker.columns.evaluate import Evaluation, calling, void
from headrace.worker.columns.values import ColumnValues
from headrace.worker.columns.vectors import spread, truth, union, within


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a lowered function gives for a batch."""

    values: ColumnValues  # one for each row of the batch; what stands at a row of `back` is void
    keep: Mask | None = None  # rows that have an output; None: all. At a row of `back` it is void
    back: Positions | None = None  # rows for the user's own function, in order; None: none
    times: Positions | None = None  # microseconds, where the function gives its outputs a time


Kernel = Callable[[ColumnValues], Outcome]


@functools.lru_cache(maxsize=1024)
def kernel_of(lowered: Lowered) -> Kernel:
    """What computes a lowered function on columns of the shape that it takes."""
    return functools.partial(_run, lowered, calling(lowered))


def _run(lowered: Lowered, calls: frozenset[int], values: ColumnValues) -> Outcome:
    assert values.shape == lowered.shape
    try:
        with np.errstate(all="ignore"):
            return _computed(lowered, calls, values)
    except pa.ArrowException:  # more text than one array holds
        return _all_back(lowered, values)


def _computed(lowered: Lowered, calls: frozenset[int], values: ColumnValues) -> Outcome:
    size = len(values)
    evaluation = Evaluation(values, calls)
    keep: Mask | None = None
    bad: Mask | None = None
    if lowered.keeps is not None:
        kept = evaluation.of(lowered.keeps, None)
        keep, bad = truth(kept, size), kept.bad
    results = values
    if lowered.gives is not None:
        leaves, unsure = evaluation.columns(lowered.gives, keep)
        bad = union(bad, unsure if keep is None else within(unsure, keep))
        results = ColumnValues(lowered.gives.shape, leaves, size)
    times: Positions | None = None
    if lowered.micros is not None:
        found = evaluation.of(lowered.micros, keep)
        times = spread(found, ScalarKind.INT, size)
        low, high = found.bounds()
        far = None
        if low < MIN_TIME or high > MAX_TIME:
            far = (times < MIN_TIME) | (times > MAX_TIME)
        unsure = union(found.bad, found.all_missing(size), far)
        bad = union(bad, unsure if keep is None else within(unsure, keep))
    back = None if bad is None else np.flatnonzero(bad)
    return Outcome(results, keep, None if back is None or not len(back) else back, times)


def _all_back(lowered: Lowered, values: ColumnValues) -> Outcome:
    nothing = np.zeros(len(values), np.bool_)
    empty = void(lowered.result, len(values))
    keep = None if lowered.keeps is None else nothing
    times = None if lowered.micros is None else np.zeros(len(values), np.int64)
    return Outcome(
        ColumnValues(lowered.result, empty, len(values)), keep, np.arange(len(values)), times
    )
