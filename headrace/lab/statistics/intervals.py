"""Intervals around figures, and whether two sets of repeats differ.

Repeats are few: means have Student's interval, differences a permutation test, exact where all
ways to deal the values can be tried. 95 % everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, exp, sqrt

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import F64, I64
from headrace.lab.statistics.samples import percentile

#: Student's two-sided 95 % quantiles for 1 to 30 degrees of freedom.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
_NORMAL = 1.96
#: Ways to deal the values out that are all tried; above, so many are drawn.
_TRIES = 20_000
#: Blocks of a run, at most: their percentiles are to be those of many samples.
_MOST_BLOCKS = 20
#: A difference with a smaller chance of being none is called one.
LEVEL = 0.05


def student(freedom: int) -> float:
    """Give the quantile; for more than 30 degrees of freedom an approximation good to 0.1 %."""
    if freedom < 1:
        return float("inf")
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return _NORMAL + 2.38 / freedom


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and where it lies with 95 % confidence."""

    value: float
    low: float  # equal to the value where there is a single repeat: nothing is known of the spread
    high: float
    count: int  # repeats, or samples

    def __str__(self) -> str:
        return f"{self.value:,.4g} [{self.low:,.4g}, {self.high:,.4g}] of {self.count}"


def of_repeats(values: Sequence[float]) -> Interval:
    """Give the mean of repeats.

    >>> print(of_repeats([9.0, 10.0, 11.0]))
    10 [7.516, 12.48] of 3
    """
    if not values:
        msg = "there are no repeats, and so no mean of them"
        raise OptionError(msg)
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(value=mean, low=mean, high=mean, count=1)
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return Interval(value=mean, low=mean - half, high=mean + half, count=len(values))


def of_percentile(samples: F64, share: float, groups: I64) -> Interval:
    """Give a percentile, and the interval that stretches of the run leave open.

    Samples that came together depend on each other, so many of them say little more than one does.
    They are dealt into blocks of whole groups, at most 20 and about equally large. The interval
    covers two readings of them: how the blocks' percentiles spread (batch means), and which
    percentiles of all samples the spread of the blocks' shares below this one allows for. One that
    hardly a group is above, as the p99 of a dozen windows, is that of what the run has seen: how
    high it might be in a longer one, nobody can say. A single block says nothing of the spread.

    Args:
        samples: all of them.
        share: of the samples that are not above the percentile.
        groups: of each sample the number of its group, see `samples.together`.
    """
    count = len(samples)
    if not count:
        msg = "there are no samples, and so no percentile of them"
        raise OptionError(msg)
    value = percentile(samples, share)
    dealt = _blocks(groups)
    blocks = [samples[dealt == block] for block in np.unique(dealt)]
    if len(blocks) == 1:
        return Interval(value=value, low=value, high=value, count=count)
    sure = student(len(blocks) - 1)
    of_blocks = [percentile(block, share) for block in blocks]
    half = sure * float(np.std(of_blocks, ddof=1)) / sqrt(len(blocks))
    more = np.array([float((block <= value).sum()) - share * len(block) for block in blocks])
    room = sure * sqrt(len(blocks) / (len(blocks) - 1) * float((more**2).sum())) / count
    ordered = np.sort(samples)
    low, high = (
        float(ordered[min(count, max(1, int(np.ceil(count * place)))) - 1])
        for place in (share - room, share + room)
    )
    lowest = float(ordered[0])
    return Interval(
        value=value, low=max(lowest, min(low, value - half)), high=max(high, value + half),
        count=count,
    )


def _blocks(groups: I64) -> I64:
    """Deal groups into blocks: adjacent ones together, none of them cut."""
    _, place, counts = np.unique(groups, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    blocks = before * min(_MOST_BLOCKS, len(counts)) // len(groups)
    return np.asarray(blocks[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two sets of repeats differ."""

    ratio: float  # of the second's geometric mean to the first's
    low: float
    high: float
    chance: float  # of such a difference or a greater one if there were none
    least_chance: float  # the smallest that so few repeats can give

    @property
    def is_shown(self) -> bool:
        """Whether the repeats show a difference."""
        return self.chance < LEVEL

    def told(self) -> str:
        """Say it."""
        change = f"x{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}], p = {self.chance:.3f}"
        if self.is_shown:
            return f"{change}: different"
        if self.least_chance >= LEVEL:
            return f"{change}: too few repeats to show any difference"
        return f"{change}: no difference shown"


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare repeats of a figure that is above 0.

    >>> difference([10.0, 11.0, 10.5, 10.2], [20.0, 21.5, 20.4, 21.0]).is_shown
    True
    >>> difference([10.0, 11.0], [20.0, 21.5]).told()
    'x1.977 [0.925, 4.228], p = 0.333: too few repeats to show any difference'
    """
    if not first or not second or min(*first, *second) <= 0:
        msg = "a difference needs repeats on both sides, all above 0"
        raise OptionError(msg)
    a, b = np.log(first), np.log(second)
    shift = float(b.mean() - a.mean())
    half = _half_width(a, b)
    ways = comb(len(a) + len(b), len(a))
    # The same values dealt the other way round differ as much, if both sides are equally many.
    least = (2 if len(a) == len(b) else 1) / ways
    return Difference(
        ratio=exp(shift), low=exp(shift - half) if half < 700 else 0.0,
        high=exp(shift + half) if half < 700 else float("inf"),
        chance=_permuted(np.concatenate([a, b]), len(a), ways), least_chance=least,
    )


def _half_width(a: F64, b: F64) -> float:
    """Welch's interval of a difference of means."""
    if len(a) < 2 or len(b) < 2:
        return float("inf")
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    total = sum(parts)
    if total == 0:
        return 0.0
    freedom = total**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return float(student(max(1, int(freedom))) * sqrt(total))


def _permuted(values: F64, count: int, ways: int) -> float:
    """Give the share of ways to deal the values that differ as much as the real one."""
    total, real = values.sum(), values[:count].sum()
    rest = len(values) - count

    def apart(some: float) -> float:
        return abs(float(some / count - (total - some) / rest))

    bar = apart(real) * (1 - 1e-9)
    if ways <= _TRIES:
        dealt = (values[list(chosen)].sum() for chosen in combinations(range(len(values)), count))
        return float(sum(apart(some) >= bar for some in dealt) / ways)
    random = np.random.default_rng(1)
    found = sum(
        apart(random.permutation(values)[:count].sum()) >= bar for _ in range(_TRIES)
    )
    return float((found + 1) / (_TRIES + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """How a figure grows with another one."""

    slope: Interval
    start: float  # where the line is at 0

    @property
    def grows(self) -> bool:
        """Whether it surely grows."""
        return self.slope.low > 0


def slope_of(at: F64, values: F64) -> Slope:
    """Lay a line through points by least squares."""
    count = len(at)
    if count < 3 or float(np.ptp(at)) == 0:
        msg = f"a line needs three points at different places; there are {count}"
        raise OptionError(msg)
    slope, start = np.polyfit(at, values, 1)
    rest = values - (slope * at + start)
    error = sqrt(float((rest**2).sum()) / (count - 2) / float(((at - at.mean()) ** 2).sum()))
    half = student(count - 2) * error
    interval = Interval(value=slope, low=slope - half, high=slope + half, count=count)
    return Slope(slope=interval, start=float(start))
