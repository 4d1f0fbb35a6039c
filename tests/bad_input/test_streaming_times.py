"""Times that no sane source brings: late, far ahead, going back, missing; and clocks that jump."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.testing import test_stream
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine import clock
from headrace.errors import ColumnTypeError, OptionError
from headrace.io import BoundedOutOfOrderness, ReadFromSpark
from headrace.runner import StreamResult
from tests.streaming.harness import (
    Gathered,
    Inbox,
    checkpointed,
    finished,
    jot,
    jotted,
    streaming,
)
from tests.worker.harness import on_beam, on_headrace

spark = pytest.mark.spark
pytestmark = [pytest.mark.timeout(60, func_only=True)]

EVENTS = "key string, at long, value long"


def sums(
    folder: Path, inbox: Inbox, gathered: Gathered, *, seconds: int = 10, **read: Any
) -> StreamResult:
    """Sum the rows that are there by key and window; each file is an epoch."""
    p = checkpointed(folder, "--available_now", shards=1)
    (
        p
        | "Read" >> ReadFromSpark(inbox.frame(EVENTS), **read)
        | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
        | "Window" >> beam.WindowInto(window.FixedWindows(seconds))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Gather" >> gathered.sink("key string, total bigint")
    )
    return finished(p)


def row(value: int, at: int | None = 0) -> dict[str, Any]:
    return {"key": "k", "at": at, "value": value}


def least_mark(result: StreamResult) -> int:
    return int(min(out.micros for _, out in result.watermarks().values())) // 1_000_000


@spark
def test_a_source_whose_times_go_back_keeps_its_watermark_and_loses_only_what_is_late(
    tmp_path: Path,
) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row(1, at=5))
    inbox.put(row(2, at=25))
    first = sums(tmp_path, inbox, gathered, timestamp="at")
    assert gathered.rows == [("k", 1)]
    assert least_mark(first) == 25
    inbox.put(row(4, at=3), row(8, at=26))  # the 4 is late, the 8 is not
    inbox.put(row(16, at=22))  # behind the watermark, but its window is still open
    second = sums(tmp_path, inbox, gathered, timestamp="at")
    assert gathered.rows == [("k", 1)]
    assert least_mark(second) == 26
    assert second.stream_status.elements_late == 1
    inbox.put(row(32, at=40))
    sums(tmp_path, inbox, gathered, timestamp="at")
    assert gathered.rows == [("k", 1), ("k", 26)]


@spark
def test_a_row_from_the_far_future_moves_no_watermark_where_a_limit_is_set(
    tmp_path: Path,
) -> None:
    """Without the limit, the one wrong clock would make every other row late."""
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row(1, at=5), row(2, at=9_000_000_000_000))
    inbox.put(row(4, at=6), row(8, at=30))
    policy = BoundedOutOfOrderness(0, max_ahead=3600)
    result = sums(tmp_path, inbox, gathered, timestamp="at", watermark=policy)
    assert gathered.rows == [("k", 5)]
    assert result.stream_status.elements_late == 0
    assert least_mark(result) == 30


@spark
def test_a_row_without_a_time_fails_with_the_column_and_the_remedy(tmp_path: Path) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row(1, at=5), row(2, at=None))
    with pytest.raises(ColumnTypeError, match="Read: column 'at'") as failure:
        sums(tmp_path, inbox, gathered, timestamp="at")
    assert "bad_times='drop'" in str(failure.value)
    assert gathered.rows == []


@spark
def test_rows_without_a_time_are_left_out_and_counted_if_asked(tmp_path: Path) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row(1, at=5), row(2, at=None), row(4, at=9_223_372_036_855))  # beyond Beam's range
    inbox.put(row(8, at=None))
    inbox.put(row(16, at=30))
    result = sums(tmp_path, inbox, gathered, timestamp="at", bad_times="drop")
    assert gathered.rows == [("k", 1)]
    assert result.stream_status.rows_untimed == 3
    assert least_mark(result) == 30


@spark
def test_absurd_times_of_every_kind_of_column_are_times_or_none(tmp_path: Path) -> None:
    """Years 1 and 9999 are times. What no clock can say is none, in whatever column it stands."""
    from tests.spark_session import shared_session

    wanted = {
        "timestamp'0001-01-01 00:00:00 UTC'": -62_135_596_800,
        "timestamp'1969-12-31 23:59:59 UTC'": -1,
        "timestamp'9999-12-31 23:59:59 UTC'": 253_402_300_799,
        "timestamp_micros(-9223372036854775807L)": None,
        "CAST(NULL AS timestamp)": None,
        "date'0001-01-01'": -62_135_596_800,
        "date'9999-12-31'": 253_402_214_400,
        "date_add(date'9999-12-31', 200000000)": None,
        "CAST('NaN' AS double)": None,
        "CAST('Infinity' AS double)": None,
        "-1.5D": -1.5,
    }
    out = tmp_path / "out"
    with streaming(shards=1) as p:
        for number, expression in enumerate(wanted):
            frame = shared_session().sql(f"SELECT {number} AS n, {expression} AS at")
            _ = (
                p
                | f"Read {number}"
                >> ReadFromSpark(frame, ["n"], timestamp="at", bad_times="drop")
                | f"Pair {number}"
                >> beam.Map(lambda r, t=beam.DoFn.TimestampParam: (r.n, t.micros / 1e6))
                | f"Jot {number}" >> jot(out)
            )
    found = dict(jotted(out))
    right = {n: time for n, time in enumerate(wanted.values()) if time is not None}
    assert found == right


@spark
def test_a_watermark_that_runs_away_from_the_clock_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row(1, at=int(time.time())))
    inbox.put(row(2, at=253_402_300_000))  # the year 9999
    inbox.put(row(4, at=int(time.time())))
    result = sums(tmp_path, inbox, gathered, timestamp="at")
    assert gathered.rows == [("k", 1)]
    assert result.stream_status.elements_late == 1
    assert caplog.text.count("Read: a row's event time has moved the watermark") == 1
    assert "max_ahead" in caplog.text


def test_an_unknown_policy_for_bad_times_is_refused() -> None:
    class Frame:
        columns = ("at",)

    with pytest.raises(OptionError, match="bad_times='ignore'.*'fail' or 'drop'"):
        ReadFromSpark(Frame(), timestamp="at", bad_times="ignore")
    with pytest.raises(OptionError, match="bad_times says nothing without timestamp"):
        ReadFromSpark(Frame(), bad_times="drop")


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (1e19, "OverflowError", "too large"),
        (float("nan"), "ValueError", "NaN"),
        (None, "TypeError", "Cannot interpret None"),
        ("today", "TypeError", "Cannot interpret today"),
    ],
    ids=repr,
)
def test_a_time_that_user_code_makes_up_fails_as_on_beams_own_runner(
    given: Any, kind: str, said: str
) -> None:
    def build(p: beam.Pipeline) -> Any:
        return p | beam.Create([1]) | "Stamp" >> beam.Map(
            lambda x: window.TimestampedValue(x, given)
        )

    with pytest.raises(Exception, match=said) as ours:
        on_headrace(build)
    with pytest.raises(Exception, match=said) as beams:
        on_beam(build)
    assert type(beams.value).__name__ == type(ours.value).__name__ == kind
    assert "Stamp" in str(ours.value)


@spark
def test_elements_at_both_ends_of_time_come_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .add_elements([
            window.TimestampedValue(("first", 1), MIN_TIMESTAMP),
            window.TimestampedValue(("last", 2), window.GlobalWindow().max_timestamp()),
            window.TimestampedValue(("far", 4), Timestamp(9_000_000_000_000)),
        ])
        .advance_watermark_to(100)
        .advance_watermark_to_infinity()
    )  # fmt: skip
    with streaming() as p:
        (
            p
            | stream
            | beam.WindowInto(window.FixedWindows(60))
            | beam.CombinePerKey(sum)
            | jot(out)
        )
    assert sorted(jotted(out)) == [("far", 4), ("first", 1), ("last", 2)]
    assert jotted(out)[0] == ("first", 1)
    assert window.GlobalWindow().max_timestamp() < MAX_TIMESTAMP


@spark
def test_rows_that_take_the_time_of_their_arrival_survive_a_clock_that_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started at 1000, 500 and 5000: the second start goes on from 1000."""
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    for seconds, value in ((1000, 1), (500, 2), (5000, 4)):
        monkeypatch.setattr(clock.WallClock, "now", lambda _, s=seconds: s * 1_000_000)
        inbox.put(row(value))
        result = sums(tmp_path, inbox, gathered, seconds=100)
        assert result.stream_status.elements_late == 0
    assert gathered.rows == [("k", 3)]
    assert least_mark(result) == 5000


@given(st.lists(st.tuples(st.integers(0, 10**19), st.integers(0, 10**12)), min_size=1))
def test_the_wall_clock_never_goes_back_nor_stands_still(moments: list[tuple[int, int]]) -> None:
    """As the model: the machine's time, or where that is behind, half of what has gone by."""
    passed = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic_ns", lambda: passed)
        wall = clock.WallClock()
        expected = 0
        for reading, further in moments:
            passed += further
            expected = max(reading, expected + further // 2)
            patch.setattr(time, "time_ns", lambda reading=reading: reading)
            assert wall.now() == expected // 1_000


def test_a_clock_that_goes_on_from_another_drivers_is_not_behind_it() -> None:
    """The other was ten minutes ahead: what it put off by no time at all is due at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 1_000 * 10**9)
        assert clock.WallClock().now() == 1_000 * 10**6
        assert 0 <= clock.WallClock(1_600 * 10**6).now() - 1_600 * 10**6 < 10**6


def test_the_clock_of_a_test_stream_moves_only_when_told() -> None:
    script = clock.ScriptClock(7)
    assert (script.now(), script.now()) == (7, 7)
    script.move(5)
    assert script.now() == 12
