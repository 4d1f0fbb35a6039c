"""ContinuousWindow: one window per element, in the order of event time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transforms import ContinuousWindow, track
from headrace.transforms.continuous_window import _Slide
from headrace.transforms.replay import at, play, play_timed, replay, until
from tests.transforms.cells import Bag, Bell, Value

FEW = settings(max_examples=6, deadline=None)  # each runs a pipeline


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def last(**how: Any) -> ContinuousWindow:
    return ContinuousWindow(key=first, **how)


def test_a_counted_window_grows_to_its_size_and_slides_with_every_element() -> None:
    rows = [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")]
    got = play_timed(last(count=3, combine=len), *[at(time, (key, time)) for time, key in rows])
    assert sorted(got, key=lambda result: result[1]) == [
        (("a", 1), 1.0),
        (("a", 2), 2.0),
        (("b", 1), 3.0),
        (("a", 3), 4.0),
        (("a", 3), 5.0),
    ]


def test_elements_are_answered_when_the_watermark_reaches_their_time() -> None:
    got = play_timed(
        last(count=2),
        at(3, ("k", 3)),
        at(1, ("k", 1)),
        until(2),
        at(2, ("k", 2)),
        until(3),
        at(9, ("k", 9)),
        at(5, ("k", 5)),
    )
    assert got == [
        (("k", [("k", 1)]), 1.0),
        (("k", [("k", 1), ("k", 2)]), 2.0),
        (("k", [("k", 2), ("k", 3)]), 3.0),
        (("k", [("k", 3), ("k", 5)]), 5.0),
        (("k", [("k", 5), ("k", 9)]), 9.0),
    ]


def test_what_is_older_than_the_last_answer_of_its_key_is_dropped_and_no_other() -> None:
    got = play(
        last(count=9, combine=len),
        at(5, ("k", 1)),
        until(10),
        at(4, ("k", "dropped")),
        at(4, ("new", 1)),
        at(6, ("k", 2)),
    )
    assert sorted(got) == [("k", 1), ("k", 2), ("new", 1)]


def test_a_span_reaches_back_to_elements_that_are_younger_than_it() -> None:
    got = replay(
        last(span=2, combine=lambda window: [n for _, n in window]),
        at(10, ("k", 1)),
        at(11.999, ("k", 2)),
        at(12, ("k", 3)),
        at(15, ("k", 4)),
    )
    assert got == [("k", [1]), ("k", [1, 2]), ("k", [2, 3]), ("k", [4])]


def test_elements_of_one_time_have_windows_of_their_own_in_the_order_of_tie() -> None:
    arrivals = [at(1, ("k", n)) for n in (2, 3, 1)]
    numbers = {"combine": lambda window: [n for _, n in window]}
    assert replay(last(count=2, **numbers), *arrivals) == [("k", [1]), ("k", [1, 2]), ("k", [2, 3])]
    backwards = last(count=2, tie=lambda pair: -pair[1], **numbers)
    assert replay(backwards, *arrivals) == [("k", [2, 1]), ("k", [3]), ("k", [3, 2])]


def test_elements_that_cannot_be_compared_ask_for_a_tie() -> None:
    with pytest.raises(Exception, match="cannot be compared: give tie="):
        replay(last(count=2), at(1, ("k", 1)), at(1, ("k", "one")))


def test_a_combine_function_of_beam_sees_the_whole_window() -> None:
    mean = last(count=2, combine=beam.combiners.MeanCombineFn())
    with pytest.raises(Exception, match="unsupported operand"):
        replay(mean, at(1, ("k", 1)))
    numbers = ContinuousWindow(
        key=lambda n: n % 2, count=2, combine=beam.combiners.MeanCombineFn()
    )
    assert replay(numbers, at(1, 2), at(2, 4), at(3, 8), at(4, 5)) == [
        (0, 2.0),
        (0, 3.0),
        (0, 6.0),
        (1, 5.0),
    ]


class Key:
    """One key of the step, with state and timer as a runner would keep them."""

    def __init__(self, step: _Slide) -> None:
        self.step = step
        self.books, self.far, self.bell = Value(), Bag(), Bell()
        self.firings = 0
        self.times: list[int] = []  # of the results

    def arrive(self, micros: int, value: Any) -> None:
        time = Timestamp(micros=micros)
        self.step.process(("k", value), time, self.books, self.far, self.bell)

    def advance(self, watermark: int) -> list[Any]:
        found = []
        while self.bell.at is not None and self.bell.at <= watermark:
            now, self.bell.at = self.bell.at, None
            self.firings += 1
            fired = self.step.fire("k", Timestamp(micros=now), self.books, self.far, self.bell)
            for result in fired:
                stamped = isinstance(result, TimestampedValue)
                self.times.append(result.timestamp.micros if stamped else now)
                found.append((result.value if stamped else result)[1])
        return found


MS = track.TICK_MICROS
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=60)


@given(STEPS, st.sampled_from([("count", 1), ("count", 3), ("span", 7)]), st.booleans())
def test_any_order_of_arrival_gives_the_windows_of_the_sorted_elements(
    steps: list[tuple[bool, int]], how: tuple[str, int], tied: bool
) -> None:
    """Elements never come behind the watermark here; how far ahead they are is left to chance."""
    kind, size = how
    step = _Slide(
        size if kind == "count" else None,
        size * MS if kind == "span" else None,
        None,
        (lambda value: value) if tied else None,
    )
    key, watermark, made, got = Key(step), 0, [], []
    with mock.patch.object(track, "NEAR_MOST", 4), mock.patch.object(track, "_TAKE_LEAST", 2):
        for number, (is_element, n) in enumerate(steps):
            if is_element:
                # At least one tick ahead of the watermark, at some place inside its tick.
                made.append(((watermark + 1 + n) * MS + n * 37 % MS, number))
                key.arrive(*made[-1])
            else:
                watermark += n
                got += key.advance(watermark * MS)
                assert len(got) == sum(time // MS <= watermark for time, _ in made)
        got += key.advance(10**15)
    made.sort()
    if kind == "count":
        expected = [
            [value for _, value in made[max(0, n + 1 - size) : n + 1]] for n in range(len(made))
        ]
    else:
        expected = [
            [value for other, value in made[: n + 1] if other > time - size * MS]
            for n, (time, _) in enumerate(made)
        ]
    assert got == expected
    assert key.times == [time for time, _ in made]
    if kind == "span":
        assert (key.books.held, key.far.held, key.bell.at) == (None, [], None)


def test_a_span_is_forgotten_when_no_window_can_reach_it() -> None:
    key = Key(_Slide(None, 5 * MS, None, None))
    key.arrive(10 * MS, "a")
    assert key.advance(14 * MS) == [["a"]]
    assert key.books.held is not None
    assert key.advance(15 * MS) == []
    assert (key.books.held, key.bell.at) == (None, None)


def test_a_span_is_remembered_to_the_end_of_the_tick_that_it_ends_in() -> None:
    key = Key(_Slide(None, 5 * MS, None, None))
    key.arrive(10 * MS + 500, "a")
    assert key.advance(15 * MS) == [["a"]]
    key.arrive(15 * MS + 200, "b")
    assert key.advance(15 * MS) == [["a", "b"]]


def test_the_timer_follows_an_element_that_is_older_than_those_that_wait() -> None:
    key = Key(_Slide(2, None, None, None))
    key.arrive(3 * MS, "c")
    key.arrive(1 * MS, "a")
    key.arrive(2 * MS, "b")
    assert key.advance(1 * MS) == [["a"]]
    assert key.advance(3 * MS) == [["a", "b"], ["b", "c"]]


def test_a_firing_does_not_read_what_waits() -> None:
    """5,000 elements wait and 100 fire; the far heap may be read for these once, not 100 times."""
    key = Key(_Slide(2, None, len, None))
    for n in range(5_000):
        key.arrive((n + 1) * MS, n)
    assert len(key.far.held) > 4_000
    reads = 0

    def counting() -> list[Any]:
        nonlocal reads
        reads += 1
        return list(key.far.held)

    with mock.patch.object(key.far, "read", counting):
        assert len(key.advance(100 * MS)) == 100
        assert reads == 0
        assert len(key.advance(5_000 * MS)) == 4_900
    assert key.firings == 5_000
    # An eighth each time: log(5,000 / 2,048) / log(8 / 7) = 7 reads until 2,048 are left; then 256
    # each time: 8 reads more.
    assert 10 <= reads <= 20
    assert key.books.held[3] == [] and key.far.held == []


@FEW
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab")), max_size=12))
def test_pipelines_give_the_windows_of_the_sorted_elements(rows: list[tuple[int, str]]) -> None:
    elements = [(key, n) for n, (_, key) in enumerate(rows)]
    script = [at(time, element) for (time, _), element in zip(rows, elements, strict=True)]
    by_key = defaultdict(list)
    for (time, key), element in zip(rows, elements, strict=True):
        by_key[key].append((time, element))
    expected = []
    for key, timed in by_key.items():
        ordered = [element for _, element in sorted(timed)]
        expected += [(key, ordered[max(0, n - 1) : n + 1]) for n in range(len(ordered))]
    assert replay(last(count=2), *script) == sorted(expected)
