"""RollingCount and Partition: what comes first counts first."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transforms import Partition, RollingCount
from headrace.transforms.replay import at, play, play_timed, replay, until

FEW = settings(max_examples=6, deadline=None)  # each runs a pipeline


def count_words() -> RollingCount:
    return RollingCount(key=lambda word: word, out=lambda word, count: (word, count))


def test_rolling_count_answers_each_element_and_never_begins_again() -> None:
    got = play_timed(
        count_words(),
        at(5, "a"),
        until(5),
        at(6, "b"),
        until(1_000),
        at(1_001, "a"),
        until(2_000),
        at(3, "a"),
    )
    assert got == [(("a", 1), 5.0), (("b", 1), 6.0), (("a", 2), 1_001.0), (("a", 3), 3.0)]


@FEW
@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_rolling_counts_of_a_key_are_one_two_three(words: list[str]) -> None:
    expected = [(word, n + 1) for word, total in Counter(words).items() for n in range(total)]
    assert replay(count_words(), *[at(0, word) for word in words]) == sorted(expected)


def test_partition_gives_full_lists_in_order_of_arrival_and_keeps_the_rest() -> None:
    lists = Partition(size=3, key=lambda n: n % 2)
    script: list[Any] = []
    for turn, n in enumerate((1, 2, 3, 4, 6, 5, 8, 7)):
        script += [at(n, n), until(turn - 100)]  # one step each, so that the order is certain
    assert play(lists, *script) == [[2, 4, 6], [1, 3, 5]]


def test_partition_takes_late_elements() -> None:
    pairs = Partition(size=2, key=lambda _: 0)
    assert play(pairs, at(5, "a"), until(9), at(1, "b")) == [["a", "b"]]


def test_lists_of_one_are_given_at_once() -> None:
    assert replay(Partition(size=1, key=lambda n: n), at(0, 4), at(0, 4)) == [[4], [4]]


@FEW
@given(st.lists(st.integers(0, 99), max_size=20), st.integers(1, 4))
def test_partitions_have_one_key_one_size_and_no_element_twice(
    numbers: list[int], size: int
) -> None:
    numbered = list(enumerate(numbers))
    got = play(Partition(size=size, key=lambda pair: pair[1] % 3), *[at(0, p) for p in numbered])
    by_key: defaultdict[Any, int] = defaultdict(int)
    for full in got:
        assert len(full) == size
        assert len({n % 3 for _, n in full}) == 1
        by_key[full[0][1] % 3] += 1
    given_out = [pair for full in got for pair in full]
    assert len(given_out) == len(set(given_out)) and set(given_out) <= set(numbered)
    assert dict(by_key) == {
        key: total // size
        for key, total in Counter(n % 3 for n in numbers).items()
        if total >= size
    }
