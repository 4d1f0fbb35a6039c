"""The Yahoo generator: the same events in every cut, texts that say what the columns say."""

from __future__ import annotations

import json
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.parameters import read_settings
from headrace.lab.workloads import yahoo
from headrace.lab.workloads.yahoo.generator import YahooGenerator
from headrace.lab.workloads.yahoo.model import FIELDS, read_event, viewed_ads
from headrace.lab.workloads.yahoo.settings import Settings

MANY = YahooGenerator(Settings(events=20_000, seed=3))


def test_texts_say_what_the_columns_say() -> None:
    for row in MANY.batch(123, 200).to_pylist():
        event = json.loads(row["line"])
        assert list(event) == list(FIELDS)
        assert event == {name: row[name] for name in FIELDS}
        assert row["nanos"] // 1_000_000 == event["event_time"]
        assert row["time"].timestamp() * 1_000 == event["event_time"]


def test_identifiers_are_uuids() -> None:
    for row in MANY.batch(0, 50).to_pylist():
        for name in ("user_id", "page_id", "ad_id"):
            assert str(uuid.UUID(row[name])) == row[name]


@hypothesis(deadline=None, max_examples=40)
@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([1, 7, 64]))
def test_any_range_is_a_piece_of_the_whole(start: int, count: int, group: int) -> None:
    made = YahooGenerator(Settings(events=1_000, seed=5, rate=333, out_of_order=group))
    lines, times = made.elements(0, 1_000)
    assert made.elements(start, count) == (
        lines[start : start + count],
        times[start : start + count],
    )
    assert made.batch(start, count).column("line").to_pylist() == lines[start : start + count]
    assert made.batch(start, count).schema == made.schema


@hypothesis(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.sampled_from([1, 2, 10, 64]), st.sampled_from([1, 7, 1_000, 10**7]))
def test_no_event_is_older_than_the_watermark_before_it(events: int, group: int, rate: int) -> None:
    made = YahooGenerator(Settings(events=events, rate=rate, out_of_order=group))
    _, times = made.elements(0, events)
    marks = [made.watermark(number) for number in range(events + 3)]
    assert marks == sorted(marks)
    assert all(marks[number] <= min(times[number:]) for number in range(events))
    assert marks[events] > max(times)


def test_time_goes_on_by_the_rate() -> None:
    made = YahooGenerator(Settings(rate=4, base_ms=1_000))
    assert made.elements(0, 5)[1] == [1_000_000, 1_250_000, 1_500_000, 1_750_000, 2_000_000]
    assert made.due(6) == 1_500_000


def test_kinds_and_ads_come_about_evenly() -> None:
    rows = MANY.batch(0, 20_000)
    kinds = Counter(rows.column("event_type").to_pylist())
    assert set(kinds) == {"view", "click", "purchase"}
    assert all(6_400 < number < 6_930 for number in kinds.values())  # 6,667, four deviations
    assert len(set(rows.column("ad_type").to_pylist())) == 5
    numbers = [int(ad[:8], 16) for ad in rows.column("ad_id").to_pylist()]
    assert set(range(1_000)) <= set(numbers)
    unknown = sum(number >= 1_000 for number in numbers)
    assert 60 < unknown < 140  # 5 of 1,000 are 100, four deviations


def test_no_ad_is_unknown_where_none_shall_be() -> None:
    made = YahooGenerator(Settings(unknown_ads=0))
    assert all(ad[:8] < "000003e8" for ad in made.batch(0, 5_000).column("ad_id").to_pylist())


def test_a_line_is_read_with_its_time() -> None:
    text = MANY.elements(17, 1)[0][0]
    assert MANY.from_line(text + "\n") == (text, MANY.elements(17, 1)[1][0])
    assert MANY.to_line(text) == text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1]", "not one JSON object"),
        ('{"ad_id": "a"} x', "not one JSON object"),
        ("nonsense", "Expecting value"),
        ('{"ad_id": "a"}', "without user_id, page_id, ad_type"),
        (json.dumps(dict.fromkeys(FIELDS, "x")), "event_time is 'x'"),
    ],
)
def test_what_is_no_event_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MANY.from_line(line)


def test_white_space_after_an_event_is_no_fault() -> None:
    assert read_event('{"a": 1}\r\n') == {"a": 1}
    assert viewed_ads('{"event_type": "view", "ad_id": "x"} ') == ("x",)


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", "localhost:70000", "a b:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(OptionError, match=r"redis=.* a host and a port"):
        read_settings(yahoo.SETTINGS, {"redis": address})
