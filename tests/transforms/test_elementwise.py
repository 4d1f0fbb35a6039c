"""FilterMap, Exchange, RoundRobin: one element at a time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.transforms import Exchange, FilterMap, RoundRobin
from headrace.transforms.replay import at, play_timed, replay, until


def half(number: int) -> int | None:
    return None if number % 2 else number // 2


def test_filter_map_drops_none_and_nothing_else() -> None:
    halves = FilterMap(half)
    assert replay(halves, at(1, 0), at(2, 1), at(3, 2), at(4, 6), at(5, 7)) == [0, 1, 3]


def test_filter_map_keeps_times_and_late_elements() -> None:
    got = play_timed(FilterMap(half), at(1, 2), until(10), at(3, 4), at(12, 5), at(11, 6))
    assert sorted(got) == [(1, 1.0), (2, 3.0), (3, 11.0)]


@pytest.mark.parametrize("send", [Exchange(key=lambda n: n % 2), RoundRobin()])
def test_an_exchange_gives_every_element_once_with_its_time(send: Any) -> None:
    elements = [at(second, number) for second, number in enumerate([5, 5, 2, 9, 2])]
    expected = [(2, 2.0), (2, 4.0), (5, 0.0), (5, 1.0), (9, 3.0)]
    assert sorted(play_timed(send, *elements)) == expected
    assert sorted(play_timed(send, *elements[:3], until(2), *elements[3:])) == expected


@pytest.mark.parametrize("send", [Exchange(key=lambda n: n % 2), RoundRobin()])
def test_an_exchange_passes_late_elements_on(send: Any) -> None:
    assert replay(send, at(5, 1), until(10), at(2, 7)) == [1, 7]
