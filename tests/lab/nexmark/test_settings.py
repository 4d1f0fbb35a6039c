"""NEXMark's settings: defaults, refusals, and the rates that make no sense."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.lab.parameters import parameters_of, read_settings
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.lab.workloads.nexmark.times import Schedule

SLOW: dict[str, Any] = {"first_event_rate": 1, "next_event_rate": 1, "rate_unit": "PER_MINUTE"}


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"num_events": -1}, "num_events=-1 is outside its domain: a whole number from 0"),
        ({"hot_auction_ratio": 0}, "from 1 to 1,000,000"),
        ({"out_of_order_group_size": 0}, "from 1 to"),
        ({"first_event_rate": 0}, "from 1 to 1,000,000,000"),
        ({"rate_shape": "TRIANGLE"}, "one of SQUARE, SINE"),
        ({"pardo_cpu_factor": 1.5}, "a number from 0 to 1"),
        ({"split": 1}, "true or false"),
        # 129.8 delays of a million minutes lie between 2015 and 2262.
        ({**SLOW, "num_event_generators": 1_000_000}, "until after the year 2262: at most 128 of"),
        (
            {"first_event_rate": 3_000_000, "time_resolution": "us"},
            "both must be 2,000,000 events per second at most",
        ),
        (
            {**SLOW, "next_event_rate": 2, "rate_period_sec": 10},
            "rate_period_sec=10 is too short: no generator makes an event in it",
        ),
        (
            {**SLOW, "num_event_generators": 1_000_000, "num_events": 100,
             "num_in_flight_auctions": 1_000_000},
            "num_in_flight_auctions=1000000 is too large for this rate",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_domain(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(OptionError, match=fault):
        NexmarkSettings(**values)


def test_no_number_of_events_means_as_many_as_there_can_be() -> None:
    """Beam's number is (2**63 - 1) / (50 * 500); at a million events a second they fit."""
    quick = NexmarkSettings(num_events=0, first_event_rate=10**6, next_event_rate=10**6)
    assert quick.events == quick.max_events == 368_934_881_474_191
    slow = NexmarkSettings(num_events=0, **SLOW)
    minutes_until_2262 = (2**63 - 10**6 - 1_436_918_400_000 * 10**6) // (60 * 10**9)
    assert slow.events == minutes_until_2262 - 1


def test_the_steps_of_a_sine_as_beam_counts_them() -> None:
    settings = NexmarkSettings(
        num_event_generators=3, first_event_rate=1_000, next_event_rate=150, rate_period_sec=6
    )
    schedule = Schedule.of(settings)
    assert schedule.delays == (3000, 3264, 4248, 6756, 12987, 20001, 12987, 6756, 4248, 3264)
    assert sum(schedule.counts) == 1914
    assert schedule.nanos_at(1914) - schedule.nanos_at(0) == 9_967 * 10**6


def test_nanoseconds_are_taken_only_where_microseconds_would_be_none() -> None:
    def fine(rate: int, **values: Any) -> bool:
        return NexmarkSettings(first_event_rate=rate, next_event_rate=rate, **values).nanoseconds

    assert not fine(2_000_000)
    assert fine(2_000_001)
    assert not fine(120_000_000, rate_unit="PER_MINUTE")
    assert fine(1, time_resolution="ns")
    assert not fine(3_000_000, time_resolution="us")


def test_wall_clock_time_is_taken_once_and_kept_by_copies() -> None:
    before = time.time_ns() // 10**6
    settings = NexmarkSettings(use_wallclock_event_time=True)
    assert before <= settings.base_time <= time.time_ns() // 10**6
    copies = (replace(settings, num_events=5), pickle.loads(pickle.dumps(settings)))
    assert [copy.base_time for copy in copies] == [settings.base_time] * 2
    given = NexmarkSettings(use_wallclock_event_time=True, base_time=7)
    assert given.base_time == 7


def test_every_setting_has_a_sentence_and_a_default_that_text_can_say() -> None:
    texts = {each.name: str(each.default) for each in parameters_of(NexmarkSettings)}
    assert read_settings(NexmarkSettings, texts) == NexmarkSettings()
    assert all(each.effect.endswith(".") for each in parameters_of(NexmarkSettings))
