"""Window, TumblingWindow, Session: elements gathered by event time."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transforms import Session, TumblingWindow, Window
from headrace.transforms.replay import at, play, play_timed, replay, until

FEW = settings(max_examples=6, deadline=None)  # each runs a pipeline


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def ends_of(got: list[tuple[Any, float]]) -> list[tuple[Any, int]]:
    """Results with the end of their window in seconds; Beam stamps them just before it."""
    return sorted((value, round(time + 0.001)) for value, time in got)


def test_window_copies_each_element_into_every_window_it_is_in() -> None:
    got = play_timed(Window(size=3, slide=1, interval=10), at(5, "a"), at(25, "b"))
    assert ends_of(got) == [("a", 10), ("a", 20), ("a", 30), ("b", 30), ("b", 40), ("b", 50)]


def test_window_slides_by_several_epochs() -> None:
    got = play_timed(Window(size=4, slide=2, interval=1), at(0, "a"), at(3.5, "b"), at(4, "c"))
    assert ends_of(got) == [("a", 2), ("a", 4), ("b", 4), ("b", 6), ("c", 6), ("c", 8)]


#: Late elements in windows that were over: this runner gives them apart instead of dropping them.
OVER = [("late", 20), ("too late", 20), ("too late", 30)]


def test_window_gives_a_copy_at_each_slide_and_leaves_late_elements_to_later_windows() -> None:
    got = play_timed(
        Window(size=2, slide=1, interval=10),
        at(15, "a"),
        until(20),
        at(14, "late"),
        until(30),
        at(13, "too late"),
        at(35, "b"),
    )
    assert got[0][0] == "a"
    known = [result for result in ends_of(got) if result not in OVER]
    assert known == [("a", 20), ("a", 30), ("b", 40), ("b", 50), ("late", 30)]


def test_a_time_function_decides_instead_of_the_timestamp() -> None:
    sliding = Window(size=2, slide=2, interval=10, time=first)
    tumbling = TumblingWindow(size=2, interval=10, time=first)
    for operator in (sliding, tumbling):
        got = play_timed(operator, at(0, (19, "a")), at(0, (20, "b")))
        assert ends_of(got) == [((19, "a"), 20), ((20, "b"), 40)]


def test_tumbling_window_gives_each_element_once_at_the_boundary_and_late_ones_apart() -> None:
    got = play_timed(
        TumblingWindow(size=3, interval=10),
        at(29, "a"),
        at(30, "b"),
        at(1, "c"),
        until(30),
        at(3, "late"),
        at(31, "d"),
        until(60),
    )
    assert sorted(value for value, _ in got[:2]) == ["a", "c"]
    known = [result for result in ends_of(got) if result != ("late", 30)]
    assert known == [("a", 30), ("b", 60), ("c", 30), ("d", 60)]


@FEW
@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 4), st.data())
def test_windows_hold_what_their_bounds_say(times: list[int], size: int, data: Any) -> None:
    slide = data.draw(st.integers(1, size))
    script = [at(time, n) for n, time in enumerate(times)]
    starts = range(-size * 5, 65, 1)
    expected = Counter(
        (n, (start + size) * 5)
        for start in starts
        if start % slide == 0
        for n, time in enumerate(times)
        if start * 5 <= time < (start + size) * 5
    )
    got = play_timed(Window(size=size, slide=slide, interval=5), *script)
    assert Counter(ends_of(got)) == expected
    if slide == size:
        tumbled = play_timed(TumblingWindow(size=size, interval=5), *script)
        assert Counter(ends_of(tumbled)) == expected


def visits(**more: Any) -> Session:
    return Session(timeout=10, key=first, **more)


def test_a_session_ends_after_exactly_its_timeout() -> None:
    got = replay(visits(), at(0, ("k", 1)), at(9.999, ("k", 2)), at(19.999, ("k", 3)))
    assert got == [("k", [("k", 1), ("k", 2)]), ("k", [("k", 3)])]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_element_between_two_sessions_joins_them_in_any_order(order: tuple[int, ...]) -> None:
    arrivals = [at(0, ("k", 1)), at(8, ("k", 2)), at(16, ("k", 3))]
    got = replay(visits(), until(-1), *[arrivals[n] for n in order])
    assert got == [("k", [("k", 1), ("k", 2), ("k", 3)])]


def test_a_late_element_joins_an_open_session_and_leaves_one_that_is_over_alone() -> None:
    got = play(
        visits(),
        at(0, ("k", 1)),
        at(8, ("k", 3)),
        until(15),
        at(7, ("k", 2)),
        until(20),
        at(2, ("k", "late")),
        until(25),
        at(30, ("k", 4)),
    )
    assert got[0] == ("k", [("k", 1), ("k", 2), ("k", 3)])
    assert got[-1] == ("k", [("k", 4)])
    assert got[1:-1] in ([], [("k", [("k", "late")])])


def test_elements_of_one_time_stand_in_their_own_order_or_that_of_tie() -> None:
    arrivals = [at(1, ("k", n)) for n in (2, 3, 1)]
    assert replay(visits(), *arrivals) == [("k", [("k", 1), ("k", 2), ("k", 3)])]
    backwards = visits(tie=lambda pair: -pair[1])
    assert replay(backwards, *arrivals) == [("k", [("k", 3), ("k", 2), ("k", 1)])]


def test_elements_that_cannot_be_compared_ask_for_a_tie() -> None:
    with pytest.raises(Exception, match="cannot be compared: give tie="):
        replay(visits(), at(1, ("k", 1)), at(1, ("k", "one")))
    by_text = visits(tie=repr)
    got = replay(by_text, at(1, ("k", 1)), at(1, ("k", "one")))
    assert got == [("k", [("k", "one"), ("k", 1)])]


def naive_sessions(rows: list[tuple[int, str, int]]) -> list[tuple[str, list[Any]]]:
    found = []
    for key in "ab":
        run: list[tuple[int, Any]] = []
        for time, _, n in sorted(row for row in rows if row[1] == key):
            if run and time - run[-1][0] >= 10:
                found.append((key, [value for _, value in run]))
                run = []
            run.append((time, (key, n)))
        if run:
            found.append((key, [value for _, value in run]))
    return sorted(found)


@FEW
@given(st.lists(st.tuples(st.integers(0, 80), st.sampled_from("ab"), st.integers(0, 9))))
def test_sessions_are_those_of_sorted_elements(rows: list[tuple[int, str, int]]) -> None:
    script = [at(time, (key, n)) for time, key, n in rows]
    assert replay(visits(), *script) == naive_sessions(rows)
