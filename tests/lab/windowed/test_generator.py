"""The generator of the windowed questions: the same events in every cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.workloads.windowed.generator import WindowedGenerator
from headrace.lab.workloads.windowed.model import Event
from headrace.lab.workloads.windowed.settings import Settings


@hypothesis(deadline=None, max_examples=40)
@given(
    st.integers(0, 400), st.integers(0, 400), st.sampled_from([1, 7, 64]), st.sampled_from([1, 2])
)
def test_any_range_is_a_piece_of_the_whole(
    start: int, count: int, group: int, streams: int
) -> None:
    made = WindowedGenerator(Settings(events=1_000, rate=333, out_of_order=group), streams)
    events, times = made.elements(0, 1_000)
    piece = slice(start, start + count)
    assert made.elements(start, count) == (events[piece], times[piece])
    batch = made.batch(start, count)
    assert batch.schema == made.schema
    columns = [batch.column(name).to_pylist() for name in ("nanos", "key", "value", "stream")]
    rows = [Event(nanos // 1_000, *rest) for nanos, *rest in zip(*columns, strict=True)]
    assert rows == events[piece]
    assert [event.time for event in events] == times


@hypothesis(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.sampled_from([1, 2, 10, 64]), st.sampled_from([1, 7, 1_000, 10**7]))
def test_no_event_is_older_than_the_watermark_before_it(events: int, group: int, rate: int) -> None:
    made = WindowedGenerator(Settings(events=events, rate=rate, out_of_order=group))
    _, times = made.elements(0, events)
    marks = [made.watermark(number) for number in range(events + 3)]
    assert marks == sorted(marks)
    assert all(marks[number] <= min(times[number:]) for number in range(events))
    assert marks[events] > max(times)


def test_all_keys_and_values_come_and_no_others() -> None:
    events, _ = WindowedGenerator(Settings(keys=20, max_value=7)).elements(0, 5_000)
    assert {event.key for event in events} == set(range(20))
    assert {event.value for event in events} == set(range(1, 8))
    assert {event.stream for event in events} == {0}


def test_streams_come_in_turn_and_few_of_the_second_have_partners() -> None:
    made = WindowedGenerator(Settings(keys=20, partners=100), streams=2)
    events, _ = made.elements(0, 20_000)
    assert [event.stream for event in events] == [0, 1] * 10_000
    assert {event.key for event in events if event.stream == 0} == set(range(20))
    partners = sum(event.key < 20 for event in events if event.stream == 1)
    assert 880 < partners < 1_120  # 100 of 1,000 are 1,000, four deviations


@pytest.mark.parametrize(("partners", "expected"), [(0, 0), (1_000, 500)])
def test_none_or_all_may_have_partners(partners: int, expected: int) -> None:
    made = WindowedGenerator(Settings(partners=partners), streams=2)
    events, _ = made.elements(0, 1_000)
    assert sum(event.key < 160 for event in events if event.stream == 1) == expected


def test_times_are_distinct_up_to_a_million_events_a_second() -> None:
    made = WindowedGenerator(Settings(rate=1_000_000, out_of_order=100))
    _, times = made.elements(0, 10_000)
    assert sorted(times) == list(range(times[0], times[0] + 10_000))


def test_an_event_is_written_and_read_as_a_line() -> None:
    made = WindowedGenerator(Settings(), streams=2)
    (event,), (micros,) = made.elements(3, 1)
    text = made.to_line(event)
    assert json.loads(text) == event._asdict()
    assert made.from_line(text) == (event, micros)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[]", "not an event with time, key, value, stream"),
        ('{"time": 1, "key": 2, "value": 3}', "not an event"),
        ('{"time": 1, "key": "x", "value": 3, "stream": 0}', "key must be a whole number"),
    ],
)
def test_what_is_no_event_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        WindowedGenerator(Settings()).from_line(line)


def test_a_slide_longer_than_the_window_is_refused() -> None:
    with pytest.raises(OptionError, match="slide_sec=9 is outside its domain"):
        Settings(window_size_sec=8, slide_sec=9)
