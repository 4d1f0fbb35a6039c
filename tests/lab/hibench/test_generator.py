"""The HiBench generator: the same records in every cut, lines that say what the columns say."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from headrace.lab.workloads.hibench.generator import HiBenchGenerator
from headrace.lab.workloads.hibench.model import ip_and_time
from headrace.lab.workloads.hibench.settings import Settings

MANY = HiBenchGenerator(Settings(events=20_000, seed=3))


def test_lines_have_ten_fields_and_say_what_the_columns_say() -> None:
    for row in MANY.batch(77, 200).to_pylist():
        fields = row["line"].split(",")
        assert len(fields) == 10
        assert fields[:4] == [str(row["timestamp"]), row["ip"], row["session_id"], row["date"]]
        assert re.fullmatch(r"[A-Za-z0-9_-]{54}", row["session_id"])
        assert date(2006, 1, 1) <= date.fromisoformat(row["date"]) < date(2016, 1, 1)
        assert row["nanos"] // 1_000_000 == row["timestamp"]
        assert row["time"].timestamp() * 1_000 == row["timestamp"]


def test_the_other_fields_are_the_same_in_every_record() -> None:
    lines, _ = MANY.elements(0, 500)
    assert len({tuple(text.split(",")[4:]) for text in lines}) == 1


def test_sessions_differ_and_addresses_come_about_evenly() -> None:
    rows = MANY.batch(0, 20_000)
    assert len(set(rows.column("session_id").to_pylist())) == 20_000
    ips = Counter(rows.column("ip").to_pylist())
    assert len(ips) == 100
    assert all(140 < number < 260 for number in ips.values())  # 200, more than four deviations
    letters = Counter("".join(rows.column("session_id").to_pylist()))
    assert len(letters) == 64
    assert max(letters.values()) < 1.05 * min(letters.values())


def test_many_addresses_are_distinct() -> None:
    made = HiBenchGenerator(Settings(ips=70_000))
    ips = set(made.batch(0, 400_000).column("ip").to_pylist())
    assert len(ips) > 69_000
    assert all(max(map(int, ip.split("."))) < 256 for ip in ips)


@hypothesis(deadline=None, max_examples=40)
@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([1, 7, 64]))
def test_any_range_is_a_piece_of_the_whole(start: int, count: int, group: int) -> None:
    made = HiBenchGenerator(Settings(events=1_000, seed=5, rate=333, out_of_order=group))
    lines, times = made.elements(0, 1_000)
    piece = slice(start, start + count)
    assert made.elements(start, count) == (lines[piece], times[piece])
    assert made.batch(start, count).column("line").to_pylist() == lines[piece]
    assert made.batch(start, count).schema == made.schema


@hypothesis(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.sampled_from([1, 2, 10, 64]), st.sampled_from([1, 7, 1_000, 10**7]))
def test_no_record_is_older_than_the_watermark_before_it(
    events: int, group: int, rate: int
) -> None:
    made = HiBenchGenerator(Settings(events=events, rate=rate, out_of_order=group))
    _, times = made.elements(0, events)
    marks = [made.watermark(number) for number in range(events + 3)]
    assert marks == sorted(marks)
    assert all(marks[number] <= min(times[number:]) for number in range(events))
    assert marks[events] > max(times)


def test_a_line_is_read_with_its_time() -> None:
    lines, times = MANY.elements(5, 1)
    assert MANY.from_line(lines[0] + "\n") == (lines[0], times[0])
    assert MANY.to_line(lines[0]) == lines[0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("1,2,3", "has 10 fields, this has 3"), ("x,1,2,3,4,5,6,7,8,9", "invalid literal")],
)
def test_what_is_no_record_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MANY.from_line(line)


def test_a_pipeline_refuses_a_line_of_two_fields() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        ip_and_time("1000,1.1.1.1")
