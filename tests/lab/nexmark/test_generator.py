"""NEXMark's generator against Beam's own events and against a slow generator of the tests."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.workloads.nexmark import generator
from headrace.lab.workloads.nexmark.model import KINDS, encode, java_hash, to_json
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark import plain
from tests.lab.nexmark.plain import size_in_bytes

DATA = Path(__file__).parents[1] / "data"
ALT = {
    "num_event_generators": 3, "first_event_rate": 1000, "next_event_rate": 150,
    "rate_period_sec": 6, "hot_auction_ratio": 5, "hot_sellers_ratio": 3, "hot_bidders_ratio": 7,
    "num_in_flight_auctions": 37, "num_active_people": 61, "out_of_order_group_size": 10,
    "avg_person_byte_size": 90, "avg_auction_byte_size": 120, "avg_bid_byte_size": 40,
    "base_time": 1_500_000_000_123,
}


def reference(name: str) -> list[tuple[dict[str, Any], str]]:
    """Events that Beam's Java classes made: all columns, and the text of the record."""
    lines = gzip.decompress((DATA / f"nexmark_events_{name}.jsonl.gz").read_bytes()).decode()
    return [
        (json.loads(line), line.partition('"value":')[2].removesuffix("}"))
        for line in lines.splitlines()
    ]


@pytest.mark.parametrize(
    ("name", "values"), [("default", {"num_event_generators": 100}), ("alt", ALT)]
)
def test_every_column_of_beams_own_events_is_reproduced(name: str, values: dict[str, Any]) -> None:
    made = generator(NexmarkSettings(**values))
    records, micros = made.elements(0, 2_000)
    lines = reference(name)
    assert len(lines) == 2_000
    for number, (line, text) in enumerate(lines):
        record, numbers = records[number], made.numbers_of(number)
        found = {
            "seq": number,
            "eventId": numbers.event_id,
            "eventTimestamp": micros[number] // 1_000,
            "watermark": made.watermark(number) // 1_000,
            "interEventDelayUs": made.schedule.delay(numbers.number),
            "sizeInBytes": size_in_bytes(record) + 1,
            "encodedLength": len(encode(record)),
            "hashCode": java_hash(record),
            "type": type(record).__name__.lower(),
            "value": line["value"],
        }
        assert found == line
        assert to_json(record) == text


SMALL = st.integers(1, 20)
SETTINGS = st.fixed_dictionaries(
    {
        "num_events": st.integers(1, 400),
        "num_event_generators": st.sampled_from([1, 1, 2, 3, 7, 100, 1_000]),
        "split": st.booleans(),
        "rate_shape": st.sampled_from(["SQUARE", "SINE"]),
        "first_event_rate": st.sampled_from([1, 7, 150, 1_000, 10_000, 3_000_000]),
        "next_event_rate": st.sampled_from([1, 7, 150, 1_000, 10_000, 3_000_000]),
        "rate_unit": st.sampled_from(["PER_SECOND", "PER_MINUTE"]),
        "rate_period_sec": st.sampled_from([1, 6, 600, 601, 30_000]),
        "time_resolution": st.sampled_from(["auto", "auto", "us", "ns"]),
        "base_time": st.sampled_from([0, 1_436_918_400_000, 1_500_000_000_123]),
        "first_event_id": st.sampled_from([0, 0, 4_600, 999_983, 123_456_789_012]),
        "first_event_number": st.sampled_from([0, 0, 777_777]),
        "out_of_order_group_size": st.sampled_from([1, 1, 7, 10, 953, 1_000]),
        "avg_person_byte_size": st.integers(0, 400),
        "avg_auction_byte_size": st.integers(0, 900),
        "avg_bid_byte_size": st.integers(0, 200),
        "hot_auction_ratio": SMALL,
        "hot_sellers_ratio": SMALL,
        "hot_bidders_ratio": SMALL,
        "num_in_flight_auctions": st.sampled_from([0, 1, 37, 100, 20_000]),
        "num_active_people": st.sampled_from([1, 6, 22, 61, 1_000]),
        "watermark_holdback_sec": st.sampled_from([0, 0, 5]),
    }
)
SLOW = {
    "num_events": 100, "first_event_rate": 1, "next_event_rate": 1, "rate_unit": "PER_MINUTE",
    "num_event_generators": 1_000, "num_in_flight_auctions": 20_000,
}
FAST = {"num_events": 300, "first_event_rate": 3_000_000, "next_event_rate": 3_000_000}
REMAINDER = {"num_events": 333, "num_event_generators": 100, "split": True}


@hypothesis_settings(max_examples=60, deadline=None)
@given(values=SETTINGS, cut=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@example(values=SLOW, cut=(0.0, 1.0))
@example(values={**FAST, "time_resolution": "us", "avg_bid_byte_size": 33}, cut=(0.0, 1.0))
@example(values={**FAST, "out_of_order_group_size": 953}, cut=(0.0, 1.0))
@example(values={**REMAINDER, "out_of_order_group_size": 953}, cut=(0.2, 1.0))
@example(values={"num_events": 400, "first_event_id": 123_456_789_012}, cut=(0.5, 0.9))
def test_any_range_of_any_settings_is_what_the_slow_generator_makes(
    values: dict[str, Any], cut: tuple[float, float]
) -> None:
    try:
        settings = NexmarkSettings(**values)
    except OptionError:
        assume(False)
    made, total = generator(settings), settings.num_events
    start, end = sorted(int(share * total) for share in cut)
    expected_numbers = plain.order(settings, total)[start:end]
    expected = [plain.event(settings, *numbers) for numbers in expected_numbers]
    records, micros = made.elements(start, end - start)
    assert [tuple(record) for record in records] == [event.fields for event in expected]
    assert [KINDS.index(type(record)) for record in records] == [e.kind for e in expected]
    assert micros == [event.ts * 1_000 for event in expected]
    assert [made.numbers_of(n).event_id for n in range(start, end)] == [e.id for e in expected]
    held = settings.watermark_holdback_sec * 1_000
    assert [made.watermark(n) // 1_000 + held for n in range(start, end)] == [
        event.watermark for event in expected
    ]
    assert [made.due(n) // 1_000 for n in range(start, end)] == [e.schedule for e in expected]
    rows = made.batch(start, end - start).to_pylist()
    assert [row["number"] for row in rows] == list(range(start, end))
    for row, record, event in zip(rows, records, expected, strict=True):
        held_records = [row["person"], row["auction"], row["bid"]]
        assert held_records.pop(event.kind) == record._asdict()
        assert held_records == [None, None]
        assert (row["kind"], row["nanos"] // 10**6) == (event.kind, event.ts)
        assert int(row["time"].timestamp() * 1_000 + 0.5) == event.ts


@hypothesis_settings(max_examples=40, deadline=None)
@given(values=SETTINGS)
@example(values={**FAST, "time_resolution": "us"})
@example(values={**REMAINDER, "out_of_order_group_size": 7})
def test_no_event_is_older_than_the_watermark_of_it_or_of_one_before(
    values: dict[str, Any],
) -> None:
    try:
        settings = NexmarkSettings(**values)
    except OptionError:
        assume(False)
    made = generator(settings)
    _, micros = made.elements(0, made.events)
    watermarks = [made.watermark(number) for number in range(made.events + 1)]
    assert watermarks == sorted(watermarks)
    oldest = watermarks[-1]
    assert oldest > max(micros)
    for number in reversed(range(made.events)):
        oldest = min(oldest, micros[number])
        assert watermarks[number] <= oldest


def test_a_range_equals_the_same_range_of_the_whole() -> None:
    made = generator(NexmarkSettings(num_events=20_000, out_of_order_group_size=300))
    whole, micros = made.elements(0, 20_000)
    table = made.batch(0, 20_000)
    for start, count in [(0, 1), (49, 2), (7_123, 5_000), (19_999, 1), (5, 0)]:
        end = start + count
        assert made.elements(start, count) == (whole[start:end], micros[start:end])
        assert made.batch(start, count).to_pylist() == table.slice(start, count).to_pylist()


def test_beyond_two_million_events_a_second_times_stay_apart_unless_beams_are_asked_for() -> None:
    fast: dict[str, Any] = {
        "num_events": 50, "first_event_rate": 4_000_000, "next_event_rate": 4_000_000
    }
    base = 1_436_918_400_000
    made = generator(NexmarkSettings(**fast))
    assert made.batch(0, 50)["nanos"].to_pylist() == [base * 10**6 + 250 * n for n in range(50)]
    beams = generator(NexmarkSettings(**fast, time_resolution="us"))
    assert beams.batch(0, 50)["nanos"].to_pylist() == [base * 10**6] * 50
    long = generator(NexmarkSettings(**{**fast, "num_events": 10**7}))
    assert long.elements(9_999_999, 1)[1] == [(base + 2_499) * 1_000]


def test_two_million_events_a_second_are_still_a_microsecond_apart_as_in_beam() -> None:
    settings = NexmarkSettings(first_event_rate=2_000_000, next_event_rate=2_000_000)
    nanos = generator(settings).batch(0, 3)["nanos"].to_pylist()
    assert [each - nanos[0] for each in nanos] == [0, 1_000, 2_000]


def test_a_generator_is_small_and_makes_the_same_events_after_a_journey() -> None:
    made = generator(NexmarkSettings(num_events=10**9))
    sent = pickle.dumps(made)
    assert len(sent) < 2_000
    assert pickle.loads(sent).elements(10**9 - 100, 100) == made.elements(10**9 - 100, 100)


@pytest.mark.parametrize(("start", "count"), [(-1, 2), (95, 6), (0, -1)])
def test_events_that_there_are_none_of_are_refused(start: int, count: int) -> None:
    made = generator(NexmarkSettings(num_events=100))
    with pytest.raises(ValueError, match="not among the 100"):
        made.elements(start, count)


def test_a_line_is_read_back_with_its_time() -> None:
    made = generator(NexmarkSettings(num_events=200))
    records, micros = made.elements(0, 200)
    lines = [made.to_line(record) for record in records]
    assert [made.from_line(line) for line in lines] == list(zip(records, micros, strict=True))
