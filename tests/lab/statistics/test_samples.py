"""Percentiles and the cut of the warm-up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.statistics.samples import (
    GROUP,
    binned,
    percentile,
    warm_up,
    warm_up_seconds,
)

floats = st.floats(-1e6, 1e6)


@given(st.lists(floats, min_size=1), st.floats(0.001, 1))
def test_a_percentile_is_a_sample_with_the_share_at_or_below_it(
    values: list[float], share: float
) -> None:
    found = percentile(np.array(values), share)
    at_most = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert found in values
    assert at_most >= share * len(values) - 1e-6
    assert below <= share * len(values) + 1e-6


def by_definition(values: list[float]) -> int:
    """The rule as it is written down: try every cut, take the least error."""
    means = [
        sum(values[at : at + GROUP]) / GROUP for at in range(0, len(values) // GROUP * GROUP, GROUP)
    ]
    best = math.inf
    cut = 0
    for start in range(len(means) // 2 + 1):
        tail = means[start:]
        mean = sum(tail) / len(tail)
        error = sum((value - mean) ** 2 for value in tail) / len(tail) ** 2
        if error < best - 1e-12:
            best, cut = error, start
    return cut * GROUP


@given(st.lists(st.integers(0, 50), min_size=20, max_size=120))
def test_the_cut_is_that_of_the_definition(values: list[int]) -> None:
    found = warm_up(np.array(values, dtype=np.float64))
    # Where two cuts are equally good to a rounding, either is right.
    expected = by_definition([float(value) for value in values])
    assert found == expected or _error(values, found) == pytest.approx(_error(values, expected))


def _error(values: list[int], cut: int) -> float:
    usable = np.array(values[: len(values) // GROUP * GROUP], dtype=np.float64)
    tail = usable.reshape(-1, GROUP).mean(axis=1)[cut // GROUP :]
    return float(((tail - tail.mean()) ** 2).sum() / len(tail) ** 2)


def test_a_steady_series_loses_nothing_and_a_short_one_neither() -> None:
    assert warm_up(np.ones(100)) == 0
    assert warm_up(0.1 + np.linspace(0, 1e-14, 100)) == 0  # what rounding leaves
    assert warm_up(np.array([5.0, 1.0, 1.0])) == 0


def test_a_slow_start_is_cut_off_in_time() -> None:
    at = np.arange(0, 60, 0.02)
    latency = 0.1 + 2.0 * np.exp(-at / 1.5) + 0.01 * np.sin(at * 40)
    cut = warm_up_seconds(at, latency)
    assert 4 < cut < 15
    assert latency[at >= cut].max() < 0.3


def test_means_of_stretches_leave_out_those_without_samples() -> None:
    times, means = binned(np.array([0.1, 0.2, 2.5]), np.array([1.0, 3.0, 5.0]), 1.0)
    assert (times.tolist(), means.tolist()) == ([0.0, 2.0], [2.0, 5.0])


def test_no_samples_have_no_percentile() -> None:
    with pytest.raises(OptionError, match="no samples"):
        percentile(np.array([]), 0.5)
