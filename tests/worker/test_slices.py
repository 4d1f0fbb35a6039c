"""Windows put together from slices, against windows that hold everything themselves."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan.slices import Slices
from headrace.worker.grouping.slices import Combination, Composer, ends_between, slice_of, spans_of

FOUR_EVERY_ONE = Slices(size=4, period=1)

TABLES = st.dictionaries(
    st.integers(0, 30).map(lambda n: n * 3 + 1),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    max_size=8,
)
SPACING = st.sampled_from([2, 3, 7]).map(lambda n: Slices(size=3 * n, period=3, offset=1))


def naive(tables: dict[int, Any], slices: Slices, after: int, until: int) -> dict[int, Any]:
    """Give every window every value of its slices."""
    windows: dict[int, Any] = defaultdict(lambda: defaultdict(list))
    for start in sorted(tables):
        for k in range(slices.count):
            end = start + slices.period + k * slices.period
            if after < end <= until:
                for key, values in tables[start].items():
                    windows[end][key] += values
    return {end: dict(table) for end, table in windows.items() if table}


def composed(
    tables: dict[int, Any], slices: Slices, combination: Combination, after: int, until: int
) -> dict[int, Any]:
    composer = Composer(tables, slices, combination)
    found = {end: dict(composer.window(end)) for end in composer.ends(after, until)}
    return {end: table for end, table in found.items() if table}


@settings(max_examples=300, deadline=None)
@given(TABLES, SPACING, st.integers(-5, 100), st.integers(0, 130))
def test_joined_slices_hold_what_windows_would_hold_in_the_same_order(
    tables: dict[int, Any], slices: Slices, after: int, until: int
) -> None:
    expected = naive(tables, slices, after, until)
    assert composed(tables, slices, Combination(), after, until) == expected


@settings(max_examples=300, deadline=None)
@given(TABLES, SPACING, st.integers(-5, 100), st.integers(0, 130))
def test_stacks_merge_every_slice_of_a_window_once_and_in_order(
    tables: dict[int, Any], slices: Slices, after: int, until: int
) -> None:
    """Texts are merged by writing one after the other, so that order and number show."""
    texts = {
        start: {key: ["".join(map(str, values))] for key, values in table.items()}
        for start, table in tables.items()
    }
    expected = {
        end: {key: ["".join(map(str, values))] for key, values in table.items()}
        for end, table in naive(tables, slices, after, until).items()
    }
    assert composed(texts, slices, Combination("".join), after, until) == expected


@settings(max_examples=200, deadline=None)
@given(TABLES, SPACING)
def test_a_builtin_reduces_the_values_of_all_slices(
    tables: dict[int, Any], slices: Slices
) -> None:
    held = {
        start: {key: [[v] for v in values] for key, values in table.items()}
        for start, table in tables.items()
    }
    found = composed(held, slices, Combination(_never, max), -10, 1_000)
    expected = naive(tables, slices, -10, 1_000)
    assert found == {
        end: {key: [[max(values)]] for key, values in table.items()}
        for end, table in expected.items()
    }


def _never(_: Any) -> Any:
    raise AssertionError


def test_accumulators_that_merging_changes_are_copied_for_every_window() -> None:
    def extend(accumulators: Any) -> list[int]:
        first, *others = accumulators
        for other in others:
            first.extend(other)
        return first  # type: ignore[no-any-return]

    tables = {0: {"k": [[1]]}, 1: {"k": [[2]]}, 2: {"k": [[3]]}}
    copies = Combination(extend, None, lambda found: [list(value) for value in found])
    composer = Composer(tables, Slices(size=2, period=1), copies)
    merged = {end: extend(dict(composer.window(end))["k"]) for end in composer.ends(0, 10)}
    assert merged == {1: [1], 2: [1, 2], 3: [2, 3], 4: [3]}
    assert tables == {0: {"k": [[1]]}, 1: {"k": [[2]]}, 2: {"k": [[3]]}}


def test_a_key_whose_later_accumulators_may_change_is_kept_whole_from_then_on() -> None:
    tables: dict[int, Any] = {0: {"k": [1]}, 1: {"k": [2]}, 2: {"k": [[3]]}, 3: {"k": [4]}}
    composer = Composer(tables, Slices(size=3, period=1), Combination(sum, None, list))
    found = [dict(composer.window(end)).get("k") for end in composer.ends(0, 10)]
    assert found == [[1], [3], [1, 2, [3]], [2, [3], 4], [[3], 4], [4]]


def test_a_merge_per_window_does_not_grow_with_the_number_of_slices() -> None:
    calls = 0

    def merge(accumulators: Any) -> int:
        nonlocal calls
        calls += 1
        return sum(accumulators)

    slices = Slices(size=300, period=1)
    composer = Composer({n: {"k": [1]} for n in range(1_200)}, slices, Combination(merge))
    found = [dict(composer.window(end))["k"] for end in composer.ends(-1, 1_200)]
    assert found == [[min(n, 300)] for n in range(1, 1_201)]
    assert calls < 4 * 1_200


def test_ends_skip_the_time_in_which_no_slice_is() -> None:
    assert list(ends_between([0, 1_000_000], FOUR_EVERY_ONE, -1, 1_000_002)) == [
        1, 2, 3, 4, 1_000_001, 1_000_002,
    ]  # fmt: skip
    assert list(ends_between([0], FOUR_EVERY_ONE, 2, 100)) == [3, 4]
    assert list(ends_between([], FOUR_EVERY_ONE, 0, 100)) == []


def test_windows_are_those_of_one_slice_only_if_all_are_there() -> None:
    windows = list(spans_of(10, FOUR_EVERY_ONE))
    assert windows == [(7, 11), (8, 12), (9, 13), (10, 14)]
    assert slice_of(windows, FOUR_EVERY_ONE) == (10, 11)
    assert slice_of(windows[::-1], FOUR_EVERY_ONE) == (10, 11)
    assert slice_of(windows[:3], FOUR_EVERY_ONE) is None
    assert slice_of([*windows[:3], (20, 24)], FOUR_EVERY_ONE) is None


@pytest.mark.parametrize(("size", "period"), [(4, 4), (4, 8), (5, 2), (4, 0)])
def test_windows_that_do_not_overlap_by_whole_periods_have_no_slices(
    size: int, period: int
) -> None:
    with pytest.raises(PlanError, match="have no slices"):
        Slices(size=size, period=period)


@given(st.integers(-100, 100), st.integers(1, 9), st.integers(0, 9))
def test_the_next_end_is_the_first_aligned_moment_after_a_time(
    time: int, period: int, offset: int
) -> None:
    end = Slices(size=2 * period, period=period, offset=offset).next_end(time)
    assert end > time
    assert end - period <= time
    assert (end - offset) % period == 0
