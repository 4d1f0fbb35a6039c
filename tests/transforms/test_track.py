"""The books of a continuous window, without Beam."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from headrace.transforms import track as module
from headrace.transforms.track import Track, last_elements, last_micros

MS = module.TICK_MICROS


@contextmanager
def short_near() -> Iterator[None]:
    """Books that send entries away after a few."""
    with mock.patch.object(module, "NEAR_MOST", 4), mock.patch.object(module, "_TAKE_LEAST", 2):
        yield


def test_entries_leave_in_order_of_time_rank_and_arrival() -> None:
    track = Track()
    for entry in [(2 * MS, "b", 0), (2 * MS, "a", 1), (1 * MS, "z", 2), (2 * MS, "a", 3)]:
        assert track.put(entry) == []
    assert track.first() == MS
    assert track.take(1 * MS) == [(1 * MS, "z", 2)]
    assert track.take(2 * MS) == [(2 * MS, "a", 1), (2 * MS, "a", 3), (2 * MS, "b", 0)]
    assert track.first() is None and track.number == 4


def test_all_times_of_a_tick_are_due_together_and_none_of_the_next() -> None:
    track = Track()
    for micros in (1_999, 1_000, 2_000):
        track.put((micros, micros, track.number))
    assert [entry[0] for entry in track.take(1_000)] == [1_000, 1_999]
    assert track.done == 1_000
    assert [track.is_late(micros) for micros in (999, 1_000, 1_500)] == [True, False, False]


def test_near_sends_its_later_half_away_when_it_is_full() -> None:
    track = Track()
    with short_near():
        for ms in (5, 1, 3, 2):
            assert track.put((ms * MS, ms, ms)) == []
        assert track.put((4 * MS, 4, 4)) == [(3 * MS, 3, 3), (4 * MS, 4, 4), (5 * MS, 5, 5)]
    assert track.fence == 3 * MS
    assert track.put((3 * MS, 9, 9)) == [(3 * MS, 9, 9)]
    assert track.put((2 * MS, 9, 9)) == []


def test_one_tick_is_never_divided() -> None:
    track = Track()
    with short_near():
        for n in range(8):
            assert track.put((MS + n, n, n)) == []
        assert track.fence is None
        assert track.put((2 * MS, 8, 8)) == [(2 * MS, 8, 8)]


def test_loading_takes_an_eighth_of_what_is_far() -> None:
    track = Track(fence=0)
    far = [(ms * MS, ms, ms) for ms in range(80)]
    with short_near():
        rest = track.load(far[::-1])
    assert (len(track.near), len(rest), track.fence) == (10, 70, 10 * MS)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 30_000)),
        st.tuples(st.just("take"), st.integers(0, 3_000)),
    ),
    max_size=80,
)


@given(ACTIONS)
def test_books_with_a_far_heap_are_a_sorted_list(actions: list[tuple[str, int]]) -> None:
    track, far = Track(), []
    model: list[tuple[int, int, int]] = []
    now = 0
    with short_near():
        for number, (action, micros) in enumerate(actions):
            if action == "put":
                entry = (micros, micros % 3, number)
                if not track.is_late(micros):
                    far += track.put(entry)
                    model.append(entry)
                    model.sort()
            else:
                now += micros
                got = track.take(now)
                while track.must_load():
                    far = track.load(far)
                    got += track.take(now)
                limit = now - now % MS + MS
                assert got == [entry for entry in model if entry[0] < limit]
                model = [entry for entry in model if entry[0] >= limit]
            assert sorted(track.near + far) == model
            assert (track.first() is None) == (not model)
            assert not model or track.first() == model[0][0] - model[0][0] % MS
            track = Track(*track.plain())


@given(st.lists(st.integers(), max_size=20), st.integers(1, 6), st.integers(0, 20))
def test_counted_windows_are_slices(elements: list[int], count: int, cut: int) -> None:
    tail: list[int] = []
    got = [*last_elements(tail, elements[:cut], count), *last_elements(tail, elements[cut:], count)]
    assert got == [elements[max(0, n + 1 - count) : n + 1] for n in range(len(elements))]
    assert len(tail) <= count - 1


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 20), st.integers(0, 20))
def test_spanned_windows_reach_back_less_than_their_span(
    times: list[int], span: int, cut: int
) -> None:
    timed = list(zip(sorted(times), range(len(times)), strict=True))
    tail: list[tuple[int, int]] = []
    got = [*last_micros(tail, timed[:cut], span), *last_micros(tail, timed[cut:], span)]
    assert got == [
        [m for time, m in timed[: n + 1] if time > until - span] for until, n in timed
    ]
