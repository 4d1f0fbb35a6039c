"""Intervals and differences, held against textbook values and against chance itself."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.errors import OptionError
from headrace.lab.statistics.calibration import calibrate
from headrace.lab.statistics.intervals import (
    difference,
    of_percentile,
    of_repeats,
    slope_of,
    student,
)


def test_the_interval_of_a_mean_is_that_of_the_textbook() -> None:
    # Mean 5, standard deviation 2 (n - 1), n = 16: 5 +- 2.131 * 2 / 4.
    values = 5 + 2 * np.sqrt(15 / 16) * np.array([1.0, -1.0] * 8)
    found = of_repeats(values.tolist())
    assert (found.low, found.high) == pytest.approx((5 - 1.0655, 5 + 1.0655))


def test_a_single_repeat_says_nothing_of_the_spread() -> None:
    found = of_repeats([7.0])
    assert (found.low, found.value, found.high, found.count) == (7, 7, 7, 1)


def test_quantiles_beyond_the_table_are_near_the_true_ones() -> None:
    # From tables of Student's distribution.
    for freedom, true in ((40, 2.021), (60, 2.000), (120, 1.980)):
        assert student(freedom) == pytest.approx(true, rel=0.001)


def test_intervals_of_means_and_percentiles_hold_as_often_as_they_say() -> None:
    random = np.random.default_rng(3)
    means = percentiles = 0
    for _ in range(400):
        few = of_repeats(random.normal(10, 2, 5).tolist())
        means += few.low <= 10 <= few.high
        alone = np.arange(2_000)
        many = of_percentile(random.exponential(1, 2_000), 0.99, alone)
        percentiles += many.low <= -np.log(0.01) <= many.high
    # 380 of 400 on average; fewer than 365 or more than 395 would be a chance of 1 in 1,000.
    assert 365 <= means <= 395
    assert 365 <= percentiles <= 395


@pytest.mark.parametrize(("share", "middle"), [(0.5, 0.0), (0.9, 1.2816)])
@pytest.mark.parametrize("windows", [3, 12, 60])
def test_the_interval_holds_where_the_rows_of_a_window_are_alike(
    share: float, middle: float, windows: int
) -> None:
    """60 windows of 100 rows are no 6,000 rows, and 3 windows are next to nothing.

    Every window's rows lie around a place of its own; all together are normal, so the percentile
    is known. As if they were independent, fewer than one interval in three would hold.
    """
    random = np.random.default_rng(11)
    groups = np.repeat(np.arange(windows), 100)
    held = 0
    for _ in range(200):
        shared, own = random.normal(0, 0.9, windows), random.normal(0, 1, len(groups))
        samples = 10 + np.repeat(shared, 100) + own * np.sqrt(1 - 0.9**2)
        found = of_percentile(samples, share, groups)
        held += found.low <= 10 + middle <= found.high
    assert held >= 180  # 190 on average; fewer than 180 would be a chance of 1 in 500


def test_groups_are_not_cut_and_a_single_one_says_nothing_of_the_spread() -> None:
    samples = np.array([1.0] * 100 + [3.0] * 100)
    two = of_percentile(samples, 0.99, np.repeat([0, 1], 100))
    # By hand: the percentiles are 1 and 3, their deviation is sqrt(2), that of a mean of both 1,
    # and Student's quantile for one degree of freedom is 12.706.
    assert (two.value, two.low, two.high) == pytest.approx((3.0, 1.0, 3.0 + 12.706))
    one = of_percentile(samples, 0.99, np.zeros(200, dtype=np.int64))
    assert (one.low, one.value, one.high, one.count) == (3.0, 3.0, 3.0, 200)


def test_no_difference_is_found_where_there_is_none_more_often_than_it_says() -> None:
    random = np.random.default_rng(5)
    pairs = [random.lognormal(0, 0.1, (2, 5)).tolist() for _ in range(300)]
    found = sum(difference(first, second).is_shown for first, second in pairs)
    assert found <= 28  # 15 on average


def test_a_difference_has_its_ratio_and_the_chance_of_its_permutations() -> None:
    found = difference([1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0])
    # Of the 70 ways to deal 8 values, this one and its mirror image differ as much.
    assert found.chance == pytest.approx(2 / 70)
    assert (found.ratio, found.low, found.high) == pytest.approx((2, 2, 2))
    assert "different" in found.told()


def test_many_repeats_are_compared_by_drawn_permutations() -> None:
    random = np.random.default_rng(7)
    first, second = random.lognormal(0, 0.1, 30), random.lognormal(0.2, 0.1, 30)
    found = difference(first.tolist(), second.tolist())
    assert found.is_shown
    assert found.low < np.exp(0.2) < found.high
    assert not difference(first.tolist(), first.tolist()).is_shown


def test_what_cannot_be_compared_is_refused() -> None:
    for first, second in (([], [1.0]), ([0.0], [1.0])):
        with pytest.raises(OptionError, match="above 0"):
            difference(first, second)
    with pytest.raises(OptionError, match="no repeats"):
        of_repeats([])
    with pytest.raises(OptionError, match="three points"):
        slope_of(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0]))


def test_a_line_is_found_and_whether_it_grows() -> None:
    at = np.arange(50.0)
    noise = np.random.default_rng(2).normal(0, 1, 50)
    rising = slope_of(at, 3 + 0.5 * at + noise)
    assert rising.slope.low < 0.5 < rising.slope.high
    assert rising.grows
    assert not slope_of(at, 3 + noise).grows


def test_the_kernels_give_figures_of_a_machine() -> None:
    found = calibrate()
    assert 1e5 < found.loops_per_second < 1e9
    assert 1e7 < found.copied_bytes_per_second < 1e12
    assert 0 < found.sync_seconds < 60
