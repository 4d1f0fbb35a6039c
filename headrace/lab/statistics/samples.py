"""Percentiles of raw samples, and the rule that cuts the warm-up off.

Percentiles are taken from all samples, never from other percentiles. The cut is the one that makes
the standard error of the rest's mean least (MSER-5): means of five samples each, at most half cut.
"""

from __future__ import annotations

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import F64, I64

#: Samples of a group of the rule: enough to calm neighbours that depend on each other.
GROUP = 5
#: Results that leave so soon after each other leave together: of one epoch, or of one window.
TOGETHER_SECONDS = 0.05
#: Where results leave all the time, those of so long are a group.
_STRETCH_SECONDS = 1.0


def percentile(samples: F64, share: float) -> float:
    """Give the least sample that is not below the given share of all.

    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> percentile(values, 0.5), percentile(values, 0.75), percentile(values, 0.99)
    (2.0, 3.0, 4.0)
    """
    if not len(samples):
        msg = "there are no samples, and so no percentile of them"
        raise OptionError(msg)
    return float(np.quantile(samples, share, method="inverted_cdf"))


def together(left: F64) -> I64:
    """Give of each result the number of its group: what left together, in the order of time.

    A group is an epoch's results, or those of a window that was over; where results leave without
    a pause, every second begins another one.

    >>> together(np.array([0.30, 0.90, 0.31, 0.91, 0.32])).tolist()
    [0, 1, 0, 1, 0]
    >>> together(np.arange(0, 2.5, 0.01))[[0, 99, 101, 249]].tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(left, kind="stable")
    at = left[order]
    paused = np.diff(at, prepend=-np.inf) > TOGETHER_SECONDS
    begun = at[np.maximum.accumulate(np.where(paused, np.arange(len(at)), 0))]
    stretch = np.floor((at - begun) / _STRETCH_SECONDS)
    begins = paused | (np.diff(stretch, prepend=0) != 0)
    found = np.empty(len(at), dtype=np.int64)
    found[order] = np.cumsum(begins) - 1
    return found


def warm_up(samples: F64) -> int:
    """Give how many samples at the start belong to the warm-up.

    >>> warm_up(np.array([90.0] * 20 + [10.0, 11.0] * 60))
    20
    """
    count = len(samples) // GROUP
    if count < 4:
        return 0
    means = samples[: count * GROUP].reshape(count, GROUP).mean(axis=1)
    # Of every tail: how far its means are from their mean, squared, over its length squared.
    lengths = np.arange(count, 0, -1)
    # Taken from the overall mean, so that large values do not drown small differences.
    calm = means - means.mean()
    sums = np.cumsum(calm[::-1])[::-1]
    squares = np.cumsum((calm**2)[::-1])[::-1]
    errors = np.maximum(0.0, squares - sums**2 / lengths) / lengths**2
    tried = errors[: count // 2 + 1]
    # Differences that only rounding makes are none: of equally good cuts the first is taken.
    noise = (1e-9 * float(np.abs(means).max())) ** 2
    return int(np.flatnonzero(tried <= max(float(tried.min()), noise))[0]) * GROUP


def binned(at: F64, values: F64, seconds: float) -> tuple[F64, F64]:
    """Give the mean of the values in each stretch of time; stretches without any are left out."""
    if not len(at):
        return at, values
    bins = np.floor(at / seconds).astype(np.int64)
    first = int(bins.min())
    counts = np.bincount(bins - first)
    sums = np.bincount(bins - first, weights=values)
    there = np.flatnonzero(counts)
    times = (there + first).astype(np.float64) * seconds
    return times, np.asarray(sums[there] / counts[there])


def warm_up_seconds(at: F64, values: F64, seconds: float = 0.1) -> float:
    """Give the time up to which samples belong to the warm-up, by the rule on their means."""
    order = np.argsort(at, kind="stable")
    times, means = binned(at[order], values[order], seconds)
    cut = warm_up(means)
    return float(times[cut]) if cut else 0.0
