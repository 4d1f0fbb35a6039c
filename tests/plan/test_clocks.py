"""How event time moves at a source; times are small numbers, as their unit does not matter here."""

from __future__ import annotations

import json

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.clocks import LAST_OPEN_TIME, MAX_TIME, MIN_TIME, SourceClock

Epochs = list[tuple[int, dict[str, int]]]  # processing time, what came


def run(clock: SourceClock, epochs: Epochs) -> list[int]:
    """The watermark of each epoch."""
    found = []
    for now, highest in epochs:
        clock = clock.seen(highest, now)
        found.append(clock.watermark(now))
    return found


def naive(delay: int, idle_after: int | None, epochs: Epochs) -> list[int]:
    """The same from the rules alone, all over again for each epoch."""
    found: list[int] = []
    for count in range(1, len(epochs) + 1):
        now = epochs[count - 1][0]
        highest: dict[str, int] = {}
        heard: dict[str, int] = {}
        for at, came in epochs[:count]:
            for name, time in came.items():
                highest[name] = max(time, highest.get(name, time))
                heard[name] = at
        silent = {n for n in highest if idle_after is not None and now - heard[n] >= idle_after}
        waited_for = [time for name, time in highest.items() if name not in silent]
        if waited_for:
            mark = min(waited_for) - delay
        else:
            mark = max(highest.values()) - delay if highest else MIN_TIMESTAMP.micros
        found.append(max([mark, *found]))
    return found


@st.composite
def histories(draw: st.DrawFn) -> Epochs:
    steps = draw(st.lists(st.integers(0, 12), min_size=1, max_size=12))
    now, epochs = 0, []
    for step in steps:
        now += step
        came = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(-50, 50), max_size=4))
        epochs.append((now, came))
    return epochs


delays = st.integers(0, 20)
idles = st.none() | st.integers(1, 20)


def test_the_bounds_are_beams() -> None:
    assert (MIN_TIME, MAX_TIME) == (MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros)


def test_before_any_row_the_watermark_is_the_least_time() -> None:
    clock = SourceClock(delay=5)
    assert clock.watermark(now=1_000) == MIN_TIME
    assert clock.seen({}, now=2_000).watermark(now=2_000) == MIN_TIME


def test_the_watermark_is_the_greatest_time_less_the_delay() -> None:
    assert run(SourceClock(delay=5), [(0, {"": 20}), (1, {"": 18}), (2, {"": 31})]) == [15, 15, 26]


def test_the_slowest_partition_decides() -> None:
    epochs = [(0, {"a": 10, "b": 90}), (1, {"b": 95}), (2, {"a": 40})]
    assert run(SourceClock(), epochs) == [10, 10, 40]


def test_a_partition_that_joins_late_and_behind_does_not_turn_time_back() -> None:
    assert run(SourceClock(), [(0, {"a": 100}), (1, {"b": 7}), (2, {"a": 200})]) == [100, 100, 100]


def test_a_silent_partition_holds_time_back_until_it_counts_as_idle() -> None:
    epochs: Epochs = [(0, {"a": 10, "b": 10}), (9, {"a": 50}), (10, {"a": 60}), (11, {"a": 70})]
    assert run(SourceClock(idle_after=10), epochs) == [10, 10, 60, 70]
    assert run(SourceClock(), epochs) == [10, 10, 10, 10]


def test_a_partition_that_wakes_up_in_an_epoch_holds_back_that_very_epoch() -> None:
    """At 30, `b` has been silent for long; what it brings then must not be too late at once."""
    epochs: Epochs = [(0, {"a": 10, "b": 10}), (8, {"a": 20}), (30, {"a": 60, "b": 25})]
    assert run(SourceClock(idle_after=10), epochs) == [10, 10, 25]


def test_when_all_partitions_are_idle_the_furthest_one_decides() -> None:
    assert run(SourceClock(delay=1, idle_after=10), [(0, {"a": 10, "b": 90}), (10, {})]) == [9, 89]


def test_the_next_partition_to_become_idle_is_foretold() -> None:
    clock = SourceClock(idle_after=10).seen({"a": 1, "b": 1}, now=0).seen({"a": 2}, now=4)
    assert [clock.next_idle(now) for now in (4, 9, 10, 13, 14)] == [10, 10, 14, 14, None]
    assert SourceClock().seen({"a": 1}, now=0).next_idle(0) is None
    assert SourceClock(idle_after=10).next_idle(0) is None
    assert clock.finished().next_idle(4) is None


def test_a_standstill_of_the_pipeline_is_no_silence_of_the_partitions() -> None:
    clock = SourceClock(idle_after=10).seen({"a": 5, "b": 80}, now=0)
    assert clock.seen({"b": 90}, now=3_600).watermark(3_600) == 90
    resumed = clock.resumed(now=3_600).seen({"b": 90}, now=3_600)
    assert (resumed.watermark(3_600), resumed.next_idle(3_600)) == (5, 3_610)


def test_rows_too_far_ahead_move_nothing() -> None:
    clock = SourceClock(max_ahead=100)
    assert (clock.ceiling(7), SourceClock().ceiling(7)) == (107, None)
    epochs: Epochs = [(0, {"": 50}), (0, {"": 101}), (1, {"": 101}), (2, {"": 9_999})]
    assert run(clock, epochs) == [50, 50, 101, 101]
    assert run(SourceClock(), epochs) == [50, 101, 101, 9_999]


def test_only_a_source_that_has_ended_reaches_the_end_of_time() -> None:
    clock = SourceClock().seen({"": MAX_TIME}, now=0)
    assert clock.watermark(0) == LAST_OPEN_TIME < MAX_TIME
    assert clock.finished().watermark(0) == MAX_TIME
    assert SourceClock().finished().seen({}, 3).watermark(3) == MAX_TIME


def test_a_delay_at_the_beginning_of_time_does_not_leave_beams_range() -> None:
    assert SourceClock(delay=10).seen({"": MIN_TIME + 3}, now=0).watermark(0) == MIN_TIME


def test_rows_without_a_time_of_their_own_follow_the_clock_but_never_back() -> None:
    clock = SourceClock(by_arrival=True)
    assert clock.watermark(now=70) == 70
    clock = clock.seen({"": 5}, now=70)
    assert clock.watermark(now=60) == 70
    assert clock.watermark(now=71) == 71
    assert clock.partitions == ()


@pytest.mark.parametrize("ended", [False, True])
def test_a_clock_goes_on_from_json_with_the_policy_of_the_new_program(ended: bool) -> None:
    clock = SourceClock(delay=5, idle_after=10).seen({"b": 40, "a\x00": 30}, now=3)
    clock = clock.finished() if ended else clock
    told = json.loads(json.dumps(clock.to_json()))
    assert SourceClock(delay=5, idle_after=10).restored(told) == clock
    changed = SourceClock(delay=2, idle_after=None).restored(told).seen({}, now=9)
    assert changed.watermark(now=9) == (MAX_TIME if ended else 28)


@given(delay=delays, idle_after=idles, epochs=histories())
def test_the_watermarks_are_those_of_the_naive_model(
    delay: int, idle_after: int | None, epochs: Epochs
) -> None:
    clock = SourceClock(delay=delay, idle_after=idle_after)
    assert run(clock, epochs) == naive(delay, idle_after, epochs)


@given(delay=delays, idle_after=idles, ahead=idles, epochs=histories())
def test_the_watermark_never_goes_back(
    delay: int, idle_after: int | None, ahead: int | None, epochs: Epochs
) -> None:
    found = run(SourceClock(delay=delay, idle_after=idle_after, max_ahead=ahead), epochs)
    assert found == sorted(found)


@given(delay=delays, idle_after=idles, epochs=histories(), names=st.permutations("abcd"))
def test_the_names_of_the_partitions_and_their_order_mean_nothing(
    delay: int, idle_after: int | None, epochs: Epochs, names: list[str]
) -> None:
    other = dict(zip("abcd", names, strict=True))
    renamed = [(now, {other[n]: t for n, t in reversed(came.items())}) for now, came in epochs]
    clock = SourceClock(delay=delay, idle_after=idle_after)
    assert run(clock, renamed) == run(clock, epochs)


@given(idle_after=st.integers(1, 20), epochs=histories(), cut=st.integers(0, 12))
def test_a_clock_that_goes_through_json_between_epochs_is_the_same_clock(
    idle_after: int, epochs: Epochs, cut: int
) -> None:
    policy = SourceClock(delay=3, idle_after=idle_after)
    clock = policy
    for now, highest in epochs[:cut]:
        clock = clock.seen(highest, now)
    again = policy.restored(json.loads(json.dumps(clock.to_json())))
    assert run(again, epochs[cut:]) == run(policy, epochs)[cut:]


@given(idle_after=st.integers(1, 20), epochs=histories())
def test_nothing_becomes_idle_before_the_foretold_moment(idle_after: int, epochs: Epochs) -> None:
    clock = SourceClock(idle_after=idle_after)
    for now, highest in epochs:
        clock = clock.seen(highest, now)
    now = epochs[-1][0]
    moment = clock.next_idle(now)
    if moment is None:
        assert clock.watermark(now + 1_000) == clock.watermark(now)
    else:
        assert moment > now
        assert clock.watermark(moment - 1) == clock.watermark(now)


def test_a_partition_that_was_never_heard_of_holds_the_watermark_until_its_idle_time() -> None:
    clock = SourceClock(delay=1, idle_after=10).expecting(["a", "b", "c"], now=100)
    assert clock.watermark(now=100) == MIN_TIME
    clock = clock.seen({"a": 50, "b": 70}, now=105)
    assert clock.watermark(now=105) == MIN_TIME
    assert clock.next_idle(now=105) == 110
    assert clock.watermark(now=110) == 49  # c is idle; a is the least of the others
    later = clock.seen({"c": 60}, now=112)
    assert later.watermark(now=112) == 49
    assert later.seen({"a": 65}, now=113).watermark(now=113) == 59  # c counts now


def test_without_an_idle_time_it_holds_for_ever() -> None:
    clock = SourceClock().expecting(["a", "b"], now=0).seen({"a": 5}, now=1)
    assert clock.watermark(now=10**15) == MIN_TIME
    assert clock.seen({"b": 4}, now=2).watermark(now=2) == 4


def test_partitions_that_are_known_stay_and_new_ones_do_not_take_the_watermark_back() -> None:
    clock = SourceClock(idle_after=10).expecting(["a"], now=0).seen({"a": 5}, now=1)
    assert clock.expecting(["a"], now=7) is clock
    grown = clock.expecting(["a", "b"], now=7)
    assert [(p.name, p.heard) for p in grown.partitions] == [("a", 1), ("b", 7)]
    assert grown.watermark(now=7) == 5
    assert grown.seen({"a": 9}, now=8).watermark(now=8) == 5


def test_what_is_expected_outlasts_a_restart() -> None:
    clock = SourceClock(idle_after=10).expecting(["a", "b"], now=0).seen({"a": 5}, now=1)
    again = SourceClock(idle_after=10).restored(clock.to_json()).resumed(now=50)
    assert again == clock.resumed(now=50)
    assert again.watermark(now=59) == MIN_TIME


def test_a_source_timed_by_arrival_expects_nobody() -> None:
    clock = SourceClock(by_arrival=True)
    assert clock.expecting(["a"], now=0) is clock
