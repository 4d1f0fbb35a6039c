"""Decides whether a quantity grows: a robust slope over the second part of a run.

The slope is the median over all pairs of samples (Theil and Sen): saws, as a checkpoint makes that
is compacted now and then, and a few slow epochs do not bend it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: The part at the beginning that is left out: code warms up, state grows to its size, and workers
#: fill their memory of recent change logs, which takes hundreds of epochs.
WARM_UP_SHARE = 0.5
#: More samples than this are thinned out; the number of pairs is the square.
MOST_SAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a quantity went over the part that is looked at."""

    name: str
    unit: str
    median: float
    slope: float  # units per hour
    growth: float  # what the slope makes of the looked-at time, in units
    allowed: float  # growth up to this counts as flat, in units

    @property
    def flat(self) -> bool:
        """Whether it does not grow. To fall is no fault."""
        return self.growth <= self.allowed


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Give the median slope over all pairs.

    >>> slope([0, 1, 2, 3, 4], [1, 3, 5, 7, 100])
    2.0
    """
    step = max(1, -(-len(xs) // MOST_SAMPLES))
    x, y = np.asarray(xs[::step], float), np.asarray(ys[::step], float)
    first, second = np.triu_indices(len(x), k=1)
    run = x[second] - x[first]
    apart = run > 0
    if not apart.any():
        return 0.0
    return float(np.median((y[second] - y[first])[apart] / run[apart]))


def settled(times: Sequence[float], share: float = WARM_UP_SHARE) -> int:
    """Give the number of the first sample after the warm-up."""
    if not times:
        return 0
    until = times[0] + (times[-1] - times[0]) * share
    return next(i for i, time in enumerate(times) if time >= until)


def trend(
    name: str,
    unit: str,
    times: Sequence[float],
    values: Sequence[float],
    *,
    share: float,
    least: float,
) -> Trend:
    """Fit one quantity.

    Args:
        name: of the quantity.
        unit: of its values.
        times: of the samples, in seconds.
        values: as many.
        share: growth up to this part of the median counts as flat,
        least: and so does growth up to this many units.
    """
    start = settled(times)
    xs, ys = times[start:], values[start:]
    middle = statistics.median(ys)
    rise = slope(xs, ys)
    return Trend(
        name=name, unit=unit, median=middle, slope=rise * 3600,
        growth=rise * (xs[-1] - xs[0]), allowed=max(share * abs(middle), least),
    )
