"""The formulas against counting one by one."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lab.experiments.micro.answers import SCRAMBLE, Keys, sum_below
from headrace.lab.experiments.micro.cases import CASES, find

key_numbers = st.sampled_from([1, 2, 3, 7, 10, 64])


def by_key(n: int, keys: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for i in range(n):
        found[i * SCRAMBLE % keys].append(i)
    return found


def windows_of(second: int, size: int, period: int) -> list[int]:
    """The starts of all windows that hold a second, found by trying."""
    return [s for s in range(-size, second + 1) if s % period == 0 and s <= second < s + size]


@given(n=st.integers(0, 300), keys=key_numbers)
def test_totals_and_counts_of_keys_are_those_of_counting(n: int, keys: int) -> None:
    right, found = Keys(n, keys), by_key(n, keys)
    assert right.groups() == len(found)
    for key, numbers in found.items():
        assert (right.first(key), right.count(key)) == (numbers[0], len(numbers))
        assert right.total(key) == sum(numbers)


@settings(max_examples=60)
@given(n=st.integers(0, 200), keys=key_numbers, shape=st.sampled_from([(10, 10), (10, 2), (4, 1)]))
def test_totals_of_windows_are_those_of_counting(
    n: int, keys: int, shape: tuple[int, int]
) -> None:
    size, period = shape
    found: dict[tuple[int, int], int] = defaultdict(int)
    for i in range(n):
        for start in windows_of(i // keys, size, period):
            found[i * SCRAMBLE % keys, start] += i
    right = Keys(n, keys)
    assert right.windows(size, period) == len(found)
    for (key, start), total in found.items():
        assert right.total_between(key, start, start + size) == total
    assert sum(found.values()) == size // period * sum_below(n)


def test_a_sum_is_right_for_a_size_done_by_hand() -> None:
    assert sum_below(5) == 0 + 1 + 2 + 3 + 4


def test_a_number_of_keys_that_would_starve_some_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="not invertible"):
        Keys(10, SCRAMBLE)


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_an_unknown_case_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(KeyError, match="no case maps_4; there are maps_3, "):
        find(["maps_4"])
