"""OrderedProcessor: numbers decide the order, whatever arrives when."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.testing import LocalRunner
from headrace.transforms import OrderedProcessor, sequence
from headrace.transforms.replay import at, play, replay, until
from headrace.transforms.sequence import Arrival, Waiting

FEW = settings(max_examples=8, deadline=None)  # each runs a pipeline


def trace(state: list[Any], value: Any) -> tuple[list[Any], list[Any]]:
    """Gives all values so far, so that an output tells the order."""
    state = [*state, value]
    return state, [tuple(state)]


def traced(**more: Any) -> OrderedProcessor:
    return OrderedProcessor(handler=trace, initial=[], **more)


def pairs(*numbers: int, key: str = "k") -> list[Any]:
    return [at(0, (key, (n, f"v{n}"))) for n in numbers]


def one_by_one(script: list[Any]) -> list[Any]:
    """The same as a stream of one element a step, so that the order of arrival is certain."""
    return [step for turn, arrival in enumerate(script) for step in (arrival, until(turn - 1_000))]


def test_elements_that_wait_leave_when_the_one_that_is_missing_comes() -> None:
    found = play(traced(), *one_by_one(pairs(2, 0, 1)))
    assert found == [("k", ("v0",)), ("k", ("v0", "v1")), ("k", ("v0", "v1", "v2"))]


def test_a_number_that_came_before_is_a_duplicate_also_while_it_waits() -> None:
    script = one_by_one([*pairs(0, 2, 2), *pairs(0)])
    assert play(traced(), *script, output="duplicates") == [("k", (2, "v2")), ("k", (0, "v0"))]
    assert play(traced(first=2), *pairs(1), output="duplicates") == [("k", (1, "v1"))]


def test_a_number_too_far_ahead_leaves_by_an_output_of_its_own() -> None:
    script = one_by_one(pairs(3, 4, 0))
    assert play(traced(most_ahead=3), *script, output="ahead") == [("k", (4, "v4"))]
    assert play(traced(most_ahead=3), *script) == [("k", ("v0",))]


def test_the_status_tells_what_waits_whenever_that_changes() -> None:
    script = one_by_one(pairs(0, 3, 2, 1))
    assert play(traced(status=True), *script, output="status") == [
        ("k", (1, 1, 3)), ("k", (1, 2, 3)), ("k", (4, 0, None)),
    ]  # fmt: skip
    assert play(traced(), *script, output="status") == []


def test_keys_know_nothing_of_each_other_and_begin_where_they_are_told() -> None:
    found = replay(traced(first=5), *pairs(6, 5, key="a"), *pairs(5, key="b"))
    assert found == [("a", ("v5",)), ("a", ("v5", "v6")), ("b", ("v5",))]


def test_a_handler_that_changes_its_state_in_place_does_not_reach_other_keys() -> None:
    def mutate(state: list[Any], value: Any) -> tuple[list[Any], list[Any]]:
        state.append(value)
        return state, [len(state)]

    counted = OrderedProcessor(handler=mutate, initial=[])
    assert replay(counted, *pairs(0, key="a"), *pairs(0, key="b")) == [("a", 1), ("b", 1)]


def test_arguments_outside_their_domain_are_refused() -> None:
    wrong: Any
    for wrong in ({"first": 1.5}, {"most_ahead": 0}, {"handler": 3}):
        with pytest.raises(OptionError, match="is outside its domain"):
            OrderedProcessor(**{"handler": trace, **wrong})


@FEW
@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=5))
def test_any_order_with_any_duplicates_gives_the_same(order: list[int], again: list[int]) -> None:
    """On headrace, in batch: values of a key arrive in whatever order the exchange gives."""
    rows = [("k", (n, n)) for n in [*order, *again]]
    with beam.Pipeline(runner=LocalRunner()) as p:
        made = p | beam.Create(rows) | OrderedProcessor(handler=trace, initial=[])
        everything = [("k", tuple(range(n + 1))) for n in range(12)]
        assert_that(made.processed, equal_to(everything), label="processed")
        assert_that(made.duplicates, equal_to([("k", (n, n)) for n in again]), label="duplicates")
        assert_that(made.ahead, equal_to([]), label="ahead")


class Model:
    """One key, driven as the operator drives it, with the far heap as a list."""

    def __init__(self, most: int) -> None:
        self.most, self.following, self.waiting = most, 0, Waiting()
        self.far: list[Any] = []
        self.loads = 0

    def give(self, number: int) -> Arrival | list[int]:
        """Gives the numbers that were processed, or what else became of this one."""
        if number != self.following:
            arrival = self.waiting.arrival(number, self.following, self.most)
            if arrival is Arrival.WAITS:
                self.far += self.waiting.put(number, number)
            return arrival
        done = [number]
        self.following += 1
        while True:
            if self.waiting.must_load(self.following):
                self.loads += 1
                self.far = self.waiting.load(self.far)
            values = self.waiting.take(self.following)
            if not values:
                return done
            done += values
            self.following += len(values)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=120), st.integers(1, 30), st.integers(2, 8))
def test_the_books_agree_with_a_plain_set(numbers: list[int], most: int, near: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "NEAR_MOST", near)
        patch.setattr(sequence, "_TAKE_LEAST", near // 2)
        model, held, following = Model(most), set[int](), 0
        for number in numbers:
            found = model.give(number)
            if number < following or number in held:
                assert found is Arrival.DUPLICATE
            elif number == following:
                expected = [number]
                while expected[-1] + 1 in held:
                    expected.append(expected[-1] + 1)
                held -= {*expected}
                following = expected[-1] + 1
                assert found == expected
            elif number > following + most:
                assert found is Arrival.AHEAD
            else:
                held.add(number)
                assert found is Arrival.WAITS
            assert len(model.waiting) == len(held) <= most
            assert len(model.waiting.near) <= near
            assert {*model.waiting.near, *(n for n, _ in model.far)} == held


def test_what_waits_far_is_read_seldom() -> None:
    """Ten thousand in the worst order, and each is moved a few times only."""
    model = Model(10_000)
    order = list(range(1, 10_001))
    random.Random(3).shuffle(order)
    for number in order:
        assert model.give(number) is Arrival.WAITS
    assert model.give(0) == list(range(10_001))
    assert model.loads <= 40
