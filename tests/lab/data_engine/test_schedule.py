"""When events are due, and which partition has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data_engine.pressure import Limits, Pressure
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.data_engine.shares import Share, block_for

phases = st.builds(Phase, st.floats(0.1, 100), st.floats(10, 1e6))
schedules = st.builds(Schedule, st.lists(phases, min_size=1, max_size=4).map(tuple))


@given(schedules, st.floats(0, 1))
def test_what_is_made_by_a_time_is_due_by_then_and_the_next_is_not(
    schedule: Schedule, share: float
) -> None:
    seconds = share * schedule.seconds
    made = schedule.made_by(seconds)
    assert made >= 1
    assert schedule.due(made - 1) <= seconds + 1e-6
    if made < schedule.events:
        assert schedule.due(made) >= seconds - 1e-6


@given(schedules)
def test_all_events_are_made_by_the_end_and_none_before_the_start(schedule: Schedule) -> None:
    assert schedule.made_by(schedule.seconds) == schedule.events
    assert schedule.made_by(-0.001) == 0
    assert Schedule.read(schedule.pairs()) == schedule


def test_a_spike_is_due_where_plain_counting_puts_it() -> None:
    spike = Schedule((Phase(10, 100), Phase(2, 1_000), Phase(10, 100)))
    assert spike.events == 1_000 + 2_000 + 1_000
    # The first 1,000 take ten seconds; 500 of the spike half a second more.
    assert spike.due(1_500) == pytest.approx(10.5)
    assert spike.due(3_100) == pytest.approx(13.0)


@pytest.mark.parametrize(("seconds", "rate"), [(0, 1), (1, 0), (float("inf"), 1), (-1, 1)])
def test_a_phase_without_time_or_rate_is_refused(seconds: float, rate: float) -> None:
    with pytest.raises(OptionError, match="above 0"):
        Phase(seconds, rate)


def test_a_schedule_without_phases_or_events_is_refused() -> None:
    with pytest.raises(OptionError, match="needs a phase"):
        Schedule(())
    with pytest.raises(OptionError, match="without an event"):
        Schedule.steady(rate=0.1, seconds=1)


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 300))
def test_every_event_is_of_one_partition_and_offsets_count_it(
    partitions: int, block: int, events: int
) -> None:
    shares = [Share(partition=p, partitions=partitions, block=block) for p in range(partitions)]
    counts = [share.offset_at(events) for share in shares]
    numbers = [
        share.number(offset)
        for share, count in zip(shares, counts, strict=True)
        for offset in range(count)
    ]
    assert sorted(numbers) == list(range(events))


def test_blocks_are_small_where_partitions_take_turns() -> None:
    assert block_for(200_000, 1) == 8_192
    assert block_for(200_000, 2) == 2_000  # what is due in ten milliseconds
    assert block_for(10, 4) == 16


def test_a_queue_above_the_limit_is_not_borne_at_all() -> None:
    assert "above the limit of 30" in Pressure(Limits(acceptable=10, limit=30)).look(31)


def test_a_queue_that_gets_short_again_is_forgiven() -> None:
    pressure = Pressure(Limits(acceptable=10, limit=20))
    assert [bool(pressure.look(length)) for length in (15, 9, 15, 9, 15, 15)] == [
        False, False, False, False, False, True,
    ]


def test_limits_follow_the_rate() -> None:
    assert Limits.of_rate(1_000_000, 1, 15) == Limits(acceptable=1_000_000, limit=15_000_000)
    assert Limits.of_rate(1_000_000, 1, 15).patience == 15
    with pytest.raises(OptionError, match="the first must be above 0"):
        Limits(acceptable=10, limit=9)
