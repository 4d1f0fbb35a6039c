"""WindowJoin and LeftJoin."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transforms import LeftJoin, WindowJoin
from headrace.transforms.left_join import _Join
from headrace.transforms.replay import Arrival, left, play, play_timed, replay, right, until
from tests.transforms.cells import Bag, Value

FEW = settings(max_examples=6, deadline=None)  # each runs a pipeline


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def both(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    return one[1], other[1]


def window_join() -> WindowJoin:
    return WindowJoin(key_left=first, key_right=first, join=both, window=10)


def left_join() -> LeftJoin:
    return LeftJoin(key_left=first, key_right=first, join=both)


def test_window_join_pairs_every_left_with_every_right_of_the_same_window_and_key() -> None:
    got = replay(
        window_join(),
        left(0, ("k", "a")),
        left(9, ("k", "b")),
        left(10, ("k", "c")),
        right(5, ("k", 1)),
        right(9.999, ("k", 2)),
        right(5, ("other", 3)),
        right(25, ("k", 4)),
    )
    assert got == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_window_join_gives_pairs_when_the_window_is_over_and_drops_late_elements() -> None:
    got = play(
        window_join(),
        left(1, ("k", "a")),
        left(11, ("k", "b")),
        right(12, ("k", 2)),
        right(2, ("k", 1)),
        until(10),
        right(3, ("k", "late")),
        right(13, ("k", 3)),
        until(20),
    )
    assert got[0] == ("a", 1)
    assert sorted(got[1:]) == [("b", 2), ("b", 3)]


ROWS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 39), st.integers(0, 2), st.integers(0, 9)),
    max_size=14,
)


@FEW
@given(ROWS)
def test_window_join_is_the_join_of_nested_loops(rows: list[tuple[bool, int, int, int]]) -> None:
    script = [(right if r else left)(t, (key, (n, r))) for n, (r, t, key, _) in enumerate(rows)]
    expected = Counter(
        ((n, False), (m, True))
        for n, (r, t, key, _) in enumerate(rows)
        for m, (r2, t2, key2, _) in enumerate(rows)
        if not r and r2 and key == key2 and t // 10 == t2 // 10
    )
    # One element that meets nobody, on each side: both collections are there even if rows has none.
    extra = [left(0, ("nobody", 0)), right(99, ("nobody", 0))]
    assert Counter(play(window_join(), *script, *extra)) == expected


def test_left_join_remembers_lefts_for_ever_and_lets_early_rights_wait() -> None:
    got = play_timed(
        left_join(),
        right(5, ("k", 1)),
        right(1, ("k", 2)),
        until(6),
        left(7, ("k", "a")),
        until(1_000),
        right(1_001, ("k", 3)),
        right(1_002, ("other", 4)),
    )
    assert sorted(got[:2]) == [(("a", 1), 7.0), (("a", 2), 7.0)]
    assert got[2:] == [(("a", 3), 1_001.0)]


def test_left_join_joins_late_elements_too() -> None:
    got = play_timed(left_join(), left(50, ("k", "a")), until(100), right(3, ("k", 1)))
    assert got == [(("a", 1), 50.0)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_left_join_gives_the_same_pairs_and_times_in_any_order(order: tuple[int, ...]) -> None:
    arrivals: list[Arrival] = [left(5, ("k", "a")), right(3, ("k", 1)), right(8, ("k", 2))]
    script = [arrivals[n] for n in order]
    # The watermark stays behind: it is there to make a stream of the script.
    got = play_timed(left_join(), until(0), *script)
    assert sorted(got) == [(("a", 1), 5.0), (("a", 2), 8.0)]


def test_rights_that_waited_are_freed_when_their_left_arrives() -> None:
    step, known, early = _Join(both), Value(), Bag()
    arrivals = [(1, (1, ("k", "r"))), (2, (0, ("k", "l"))), (3, (1, ("k", "s")))]
    got: list[Any] = []
    waiting: list[Any] = []
    for second, element in arrivals:
        got += step.process(("k", element), Timestamp(second), known, early)
        waiting.append(len(early.held))
    assert got == [("l", "r"), ("l", "s")]
    assert waiting == [1, 0, 0]


def test_a_second_left_takes_the_place_of_the_first_for_later_rights() -> None:
    got = play(
        left_join(),
        left(1, ("k", "a")),
        until(1),
        right(2, ("k", 1)),
        until(2),
        left(3, ("k", "b")),
        until(3),
        right(4, ("k", 2)),
    )
    assert got == [("a", 1), ("b", 2)]
