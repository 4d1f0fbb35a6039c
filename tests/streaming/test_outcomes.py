"""How a run ends is what became of it: no failure falls between two looks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms import window

from headrace.engine import opening, stream
from headrace.engine.sources.queries import Queries
from headrace.errors import CheckpointError, HeadraceError
from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from tests.places import session_of
from tests.streaming.harness import Gathered, Inbox, checkpointed, finished, started, until
from tests.streaming.test_splittable import Lazily

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

EVENTS = "key string, value long"


def build(folder: Path, inbox: Inbox, gathered: Gathered, *options: str) -> beam.Pipeline:
    p = checkpointed(folder, *options, shards=1)
    (
        p
        | "Read" >> ReadFromSpark(inbox.frame(EVENTS))
        | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
        | "Gather" >> gathered.sink("key string, value bigint")
    )
    return p


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path / "in")
    made.put({"key": "a", "value": 1})
    return made


def dead_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every query has come to its end before anybody looks at it."""
    listen = Queries.listen

    def and_wait(self: Queries, name: str, *more: Any) -> None:
        listen(self, name, *more)
        until(lambda: not self.started[name].isActive)

    monkeypatch.setattr(Queries, "listen", and_wait)


def test_a_query_that_fails_before_the_next_look_fails_the_run(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert first.wait_until_finish() == "DONE"
    torn = tmp_path / "checkpoint" / "spark" / "0" / "commits" / "0"
    torn.write_text("v1\n{")
    torn.with_name(".0.crc").unlink(missing_ok=True)
    inbox.put({"key": "a", "value": 2})
    dead_at_once(monkeypatch)
    # We would see it before Spark does; what is asked for is what happens when Spark stumbles.
    monkeypatch.setattr(opening, "check_logs", lambda *_: None)
    result = build(tmp_path, inbox, Gathered(), "--available_now").run()
    with pytest.raises(CheckpointError, match="cannot go on with its log in .*spark/0"):
        result.wait_until_finish()
    assert result.state == "FAILED"


def test_a_query_that_fails_while_it_is_ended_fails_the_run(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look is after the queries have ended, not before."""
    failure = HeadraceError("the source is gone")
    end = Queries.end

    def and_fail(self: Queries) -> None:
        end(self)
        monkeypatch.setattr(Queries, "failure", lambda _: failure)

    monkeypatch.setattr(Queries, "end", and_fail)
    gathered = Gathered()
    with started(build(tmp_path, inbox, gathered)) as result:
        until(lambda: bool(gathered.rows))
        with pytest.raises(HeadraceError, match="the source is gone"):
            result.drain()
        assert result.state == "FAILED"


def test_a_query_that_somebody_else_stops_fails_the_run(tmp_path: Path, inbox: Inbox) -> None:
    gathered = Gathered()
    with started(build(tmp_path, inbox, gathered)) as result:
        until(lambda: bool(gathered.rows))
        (query,) = result.queries.values()
        query.stop()
        with pytest.raises(HeadraceError, match=r"Read: its query was stopped by somebody else"):
            result.wait_until_finish(30_000)


def test_a_run_that_had_stopped_before_it_was_told_to_drain_is_not_called_drained(
    tmp_path: Path, inbox: Inbox
) -> None:
    result = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert isinstance(result, StreamResult)
    assert result.wait_until_finish() == "DONE"
    assert result.drain() == "DONE"  # its windows are open and its timers wait
    again = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert isinstance(again, StreamResult)
    assert again.drain() == "DRAINED"


def test_a_query_that_ends_wakes_the_loop(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks for its end: a loop that would sleep for an hour sees it at once."""
    monkeypatch.setattr(stream, "LOOK_SECONDS", 3600.0)
    gathered = Gathered()
    result = build(tmp_path, inbox, gathered, "--available_now").run()
    assert result.wait_until_finish(45_000) == "DONE"
    assert gathered.rows == [("a", 1)]


@pytest.mark.parametrize("who", ["spark", "headrace"])
def test_a_run_that_drains_what_is_there_closes_its_windows_in_one_start(
    tmp_path: Path, who: str
) -> None:
    """Sums of two batches, in a window that ends long after the last of their rows."""
    for name, values in (("a", [1, 2]), ("b", [40, 500])):
        (tmp_path / "in").mkdir(exist_ok=True)
        table = pa.table({
            "key": ["x", "y"], "value": pa.array(values),
            "at": pa.array([1_000_000, 2_000_000], pa.timestamp("us", tz="UTC")),
        })
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    reader = session_of().readStream.schema("key string, value long, at timestamp")
    frame = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))

    def drained(gathered: Gathered) -> StreamResult:
        p = checkpointed(tmp_path, "--drain_available", f"--who_asks={who}")
        (
            p
            | ReadFromSpark(frame, timestamp="at")
            | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
            | beam.WindowInto(window.FixedWindows(10_000_000))
            | beam.CombinePerKey(sum)
            | gathered.sink("key string, value bigint")
        )
        return finished(p)

    first, second = Gathered(), Gathered()
    result = drained(first)
    assert result.state == "DONE"
    assert first.rows == [("x", 41), ("y", 502)]
    # The first epoch, one for each batch, and where nobody knows which batch is the last, the end.
    assert result.stream_status.epoch + 1 == {"spark": 4, "headrace": 3}[who]
    assert drained(second).state == "DONE"  # there is nothing to go on with
    assert second.rows == []


def test_rows_of_the_last_batch_that_bring_no_time_have_that_of_their_epoch(
    tmp_path: Path,
) -> None:
    """The sources end with it, and yet it is no bounded DataFrame, whose rows have no time."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": pa.array([7])}), tmp_path / "in" / "a.parquet")
    frame = session_of().readStream.schema("value long").parquet(str(tmp_path / "in"))
    gathered = Gathered()
    p = checkpointed(tmp_path, "--drain_available", "--who_asks=headrace")

    def stamped(row: Any, at: Any = beam.DoFn.TimestampParam) -> tuple[int, int]:
        return row.value, at.micros

    rows = p | ReadFromSpark(frame) | beam.Map(stamped).with_output_types(tuple[int, int])
    rows | gathered.sink("value bigint, at bigint")
    before = time.time_ns() // 1_000
    finished(p)
    ((value, at),) = gathered.rows
    assert value == 7
    assert before <= at <= time.time_ns() // 1_000


@pytest.mark.parametrize("who", ["spark", "headrace"])
def test_a_rest_that_is_put_off_for_an_hour_does_not_keep_a_run_that_drains(
    tmp_path: Path, who: str
) -> None:
    """A splittable DoFn behind the DataFrame puts its rest off in the very last batch."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": pa.array([3])}), tmp_path / "in" / "a.parquet")
    frame = session_of().readStream.schema("value long").parquet(str(tmp_path / "in"))
    gathered = Gathered()
    p = checkpointed(tmp_path, "--drain_available", f"--who_asks={who}")
    rows = p | ReadFromSpark(frame) | beam.Map(lambda row: row.value).with_output_types(int)
    made = rows | beam.ParDo(Lazily()) | beam.Map(lambda x: (x,)).with_output_types(tuple[int])
    made | gathered.sink("position bigint")
    assert finished(p).state == "DONE"
    assert gathered.rows == [(0,), (1,), (2,)]
