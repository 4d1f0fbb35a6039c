"""Reduce and its relatives: one value per key and window."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transforms import (
    AverageBy,
    MaximizeBy,
    MinimizeBy,
    Reduce,
    ReduceBy,
    ReduceTo,
    Window,
)
from headrace.transforms.folds import Extreme, Fold, Mean
from headrace.transforms.replay import at, play_timed, replay, until

FEW = settings(max_examples=6, deadline=None)  # each runs a pipeline


def name(pair: tuple[str, int]) -> str:
    return pair[0]


def number(pair: tuple[str, int]) -> int:
    return pair[1]


def add(pair: tuple[str, int], total: int) -> int:
    return total + pair[1]


def plus(one: int, other: int) -> int:
    return one + other


def told(key: str, total: int, count: int) -> tuple[str, int, int]:
    return key, total, count


SALES = [at(1, ("a", 3)), at(9, ("a", 4)), at(2, ("b", 5)), at(10, ("a", 6)), at(31, ("b", 7))]
MERGES = pytest.mark.parametrize("merge", [None, plus], ids=["grouped", "lifted"])


@MERGES
def test_reduce_completes_each_key_and_epoch_with_value_and_count(merge: Any) -> None:
    reduce = Reduce(
        key=name, initial=100, reducer=add, completer=told, merge=merge and merged_once, window=10
    )
    expected = [("a", 106, 1), ("a", 107, 2), ("b", 105, 1), ("b", 107, 1)]
    assert replay(reduce, *SALES) == expected


def merged_once(one: int, other: int) -> int:
    """Both began with 100."""
    return one + other - 100


@MERGES
def test_reduce_by_gives_pairs_at_the_end_of_the_epoch_without_late_elements(merge: Any) -> None:
    sums = ReduceBy(key=name, initial=0, reducer=add, merge=merge, window=10)
    got = play_timed(
        sums,
        at(11, ("a", 1)),
        at(1, ("a", 2)),
        at(3, ("a", 3)),
        until(10),
        at(4, ("a", 100)),
        at(12, ("a", 5)),
    )
    assert got[0][0] == ("a", 5) and 0 <= got[0][1] < 10
    assert got[-1][0] == ("a", 6) and 10 <= got[-1][1] < 20
    assert_late_apart([pair for pair, _ in got], [("a", 5), ("a", 6)], ("a", 100))


def assert_late_apart(got: list[Any], expected: list[Any], *late: Any) -> None:
    """A late element changes no result; this runner may give it apart instead of dropping it."""
    assert Counter(expected) <= Counter(got)
    assert Counter(got) - Counter(expected) <= Counter(late)


@MERGES
def test_reduce_to_gives_one_value_for_an_epoch_and_none_for_an_empty_one(merge: Any) -> None:
    total = ReduceTo(initial=0, reducer=add, merge=merge, window=10)
    assert replay(total, *SALES) == [6, 7, 12]
    got = replay(total, *SALES[:4], until(10), at(5, ("a", 50)), SALES[4])
    assert_late_apart(got, [6, 7, 12], 50)


def test_without_an_epoch_the_windows_of_the_input_are_reduced() -> None:
    last_two = Window(size=2, slide=1, interval=10)
    sums = ReduceBy(key=name, initial=0, reducer=add, merge=plus)
    got = replay(last_two | sums, at(1, ("a", 1)), at(11, ("a", 2)), at(21, ("b", 4)))
    # Windows -10..10, 0..20, 10..30 and 20..40.
    assert got == [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 4)]


def test_average_maximum_and_minimum_by_hand() -> None:
    assert replay(AverageBy(key=name, value=number, window=10), *SALES) == [
        ("a", 3.5),
        ("a", 6.0),
        ("b", 5.0),
        ("b", 7.0),
    ]
    assert replay(MaximizeBy(key=name, value=number, window=10), *SALES[:2]) == [("a", ("a", 4))]
    assert replay(MinimizeBy(key=name, value=number, window=10), *SALES[:2]) == [("a", ("a", 3))]


@pytest.mark.parametrize(
    ("operator", "expected", "late"),
    [
        (AverageBy, 4.5, 90.0),
        (MaximizeBy, ("a", 6), ("a", 90)),
        (MinimizeBy, ("a", 3), ("a", 90)),
    ],
)
def test_late_elements_do_not_count(operator: Any, expected: Any, late: Any) -> None:
    script: list[Any] = [at(1, ("a", 3)), at(2, ("a", 6)), until(10), at(3, ("a", 90))]
    got = play_timed(operator(key=name, value=number, window=10), *script)
    assert_late_apart([pair for pair, _ in got], [("a", expected)], ("a", late))


def test_equal_values_are_decided_by_the_elements_in_any_order() -> None:
    words = ["bb", "aa", "cc", "d"]
    for order in (words, words[::-1]):
        script = [at(1, word) for word in order]
        longest = MaximizeBy(key=lambda _: 0, value=len, window=10)
        shortest = MinimizeBy(key=lambda _: 0, value=lambda word: -len(word), window=10)
        assert replay(longest, *script) == [(0, "cc")]
        assert replay(shortest, *script) == [(0, "aa")]


ROWS = st.lists(st.tuples(st.integers(0, 29), st.sampled_from("abc"), st.integers(-9, 9)))


@FEW
@given(ROWS)
def test_reductions_are_those_of_plain_loops(rows: list[tuple[int, str, int]]) -> None:
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for time, key, n in rows:
        groups[key, time // 10].append(n)
    script = [at(time, (key, n)) for time, key, n in rows]
    reduce = Reduce(key=name, initial=0, reducer=add, completer=told, merge=plus, window=10)
    expected = sorted((key, sum(ns), len(ns)) for (key, _), ns in groups.items())
    assert replay(reduce, *script) == expected
    means = AverageBy(key=name, value=number, window=10)
    assert replay(means, *script) == sorted(
        (key, sum(ns) / len(ns)) for (key, _), ns in groups.items()
    )


@given(st.lists(st.lists(st.integers(-50, 50), max_size=5), max_size=5))
def test_combines_do_not_mind_how_their_input_is_cut(parts: list[list[int]]) -> None:
    every = [n for part in parts for n in part]
    combines: list[tuple[Any, Any]] = [
        (Fold(0, lambda n, total: total + n, plus), (sum(every), len(every))),
        (Extreme(abs, max), max(every, key=lambda n: (abs(n), n), default=None)),
        (Extreme(abs, min), min(every, key=lambda n: (abs(n), n), default=None)),
    ]
    if every:
        combines.append((Mean(), sum(every) / len(every)))
    for combine, expected in combines:
        accumulators = []
        for part in parts:
            accumulator = combine.create_accumulator()
            for n in part:
                accumulator = combine.add_input(accumulator, n)
            accumulators.append(accumulator)
        merged = combine.merge_accumulators(accumulators)
        assert combine.extract_output(merged) == expected


def test_merging_leaves_out_values_without_elements() -> None:
    """An initial value that is not neutral would otherwise be counted once for each part."""
    fold = Fold(100, lambda n, total: total + n, plus)
    used = fold.add_input(fold.create_accumulator(), 7)
    assert fold.merge_accumulators([fold.create_accumulator(), used]) == (107, 1)
    assert fold.merge_accumulators([]) == (100, 0)
