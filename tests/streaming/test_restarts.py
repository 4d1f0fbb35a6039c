"""A pipeline that is started again goes on with its state: nothing lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.testing import test_stream
from apache_beam.transforms import window
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from tests.places import session_of
from tests.streaming.harness import (
    Gathered,
    Inbox,
    checkpointed,
    finished,
    jot,
    jotted,
    streaming,
)

pytestmark = [pytest.mark.timeout(120, func_only=True)]

TOTAL = ReadModifyWriteStateSpec("total", coders.VarIntCoder())
TOTAL_PARAM = beam.DoFn.StateParam(TOTAL)
EVENTS = "key string, at long, value long"


class Running(beam.DoFn):  # type: ignore[misc]
    """Gives the running total of each key, and counts what it has seen."""

    def __init__(self) -> None:
        self._seen = Metrics.counter("running", "seen")

    def process(self, element: Any, total: Any = TOTAL_PARAM) -> Iterator[Any]:
        key, value = element
        total.write((total.read() or 0) + value)
        self._seen.inc()
        yield key, total.read()


def as_it_is(pair: tuple[str, int]) -> tuple[str, int]:
    return pair


def run_totals(
    folder: Path, inbox: Inbox, gathered: Gathered, *, shards: int = 2,
    check: Callable[[tuple[str, int]], tuple[str, int]] = as_it_is,
) -> StreamResult:
    """Read what is there, then stop."""
    p = checkpointed(folder, "--available_now", shards=shards)
    (
        p
        | "Read" >> ReadFromSpark(inbox.frame(EVENTS), timestamp="at")
        | "Pair" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[str, int])
        | "Check" >> beam.Map(check).with_output_types(tuple[str, int])
        | "Running" >> beam.ParDo(Running())
        | "Gather" >> gathered.sink("key string, total bigint")
    )
    return finished(p)


def row(key: str, value: int, at: int = 0) -> dict[str, Any]:
    return {"key": key, "at": at, "value": value}


def seen(result: StreamResult) -> int:
    (found,) = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    return int(found.committed)


@pytest.mark.also_on_spark
def test_state_and_metrics_go_on_over_restarts_with_1_3_and_2_shards(tmp_path: Path) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row("a", 1), row("b", 10), row("c", 100))
    first = run_totals(tmp_path, inbox, gathered, shards=1)
    assert gathered.rows == [("a", 1), ("b", 10), ("c", 100)]
    assert seen(first) == 3
    inbox.put(row("a", 2), row("b", 20), row("d", 1000))
    second = run_totals(tmp_path, inbox, gathered, shards=3)
    assert seen(second) == 6
    inbox.put(row("a", 4), row("c", 400), row("d", 4000))
    third = run_totals(tmp_path, inbox, gathered, shards=2)
    assert gathered.rows == [
        ("a", 1), ("a", 3), ("a", 7), ("b", 10), ("b", 30), ("c", 100), ("c", 500),
        ("d", 1000), ("d", 5000),
    ]
    assert seen(third) == 9
    assert third.state == "DONE"


def test_a_second_start_with_nothing_new_puts_nothing_out(tmp_path: Path) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row("a", 1))
    first = run_totals(tmp_path, inbox, gathered)
    again = Gathered()
    second = run_totals(tmp_path, inbox, again)
    assert again.rows == []
    assert second.stream_status.epoch >= first.stream_status.epoch


class Poisoned(ValueError):
    """What the check below raises."""


def refuse_negative(pair: tuple[str, int]) -> tuple[str, int]:
    if pair[1] < 0:
        message = f"{pair[1]} is no value"
        raise Poisoned(message)
    return pair


def make_positive(pair: tuple[str, int]) -> tuple[str, int]:
    return pair[0], abs(pair[1])


def test_a_poison_element_fails_with_its_step_and_mended_code_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row("a", 1), row("b", 10))
    inbox.put(row("a", 2), row("b", -20))
    inbox.put(row("a", 4))
    with pytest.raises(Poisoned, match=r"-20 is no value \[while running 'Check'\]"):
        run_totals(tmp_path, inbox, gathered, check=refuse_negative)
    assert gathered.rows == [("a", 1), ("b", 10)]
    with pytest.raises(Poisoned):  # again, as long as nobody mends anything
        run_totals(tmp_path, inbox, gathered, check=refuse_negative)
    assert gathered.rows == [("a", 1), ("b", 10)]
    result = run_totals(tmp_path, inbox, gathered, check=make_positive)
    assert gathered.rows == [("a", 1), ("a", 3), ("a", 7), ("b", 10), ("b", 30)]
    assert seen(result) == 5  # what the failed epochs counted does not count


class Once:
    """Fails the first time it is called anywhere."""

    def __init__(self, flag: Path) -> None:
        self._flag = str(flag)

    def __call__(self, pair: tuple[str, int]) -> tuple[str, int]:
        try:
            open(self._flag, "x", encoding="utf-8").close()
        except FileExistsError:
            return pair
        message = "not yet"
        raise ConnectionError(message)


def test_a_fault_that_passes_by_itself_costs_a_restart_and_nothing_else(tmp_path: Path) -> None:
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    inbox.put(row("a", 1), row("a", 2))
    once = Once(tmp_path / "flag")
    with pytest.raises(ConnectionError, match="not yet"):
        run_totals(tmp_path, inbox, gathered, check=once)
    run_totals(tmp_path, inbox, gathered, check=once)
    assert [total for _, total in gathered.rows][-1] == 3
    assert len(gathered.rows) == 2


@pytest.mark.also_on_spark
def test_two_streaming_frames_feed_one_pipeline(tmp_path: Path) -> None:
    """The sum of a window holds the rows of both, and waits for the slower one's watermark."""
    left, right, gathered = Inbox(tmp_path / "left"), Inbox(tmp_path / "right"), Gathered()
    left.put(row("a", 1, at=1), row("a", 2, at=15))
    right.put(row("a", 100, at=2))

    def run() -> StreamResult:
        p = checkpointed(tmp_path, "--available_now")
        parts = [
            p
            | f"Read {name}" >> ReadFromSpark(inbox.frame(EVENTS), timestamp="at")
            | f"Pair {name}" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(
                tuple[str, int]
            )
            for name, inbox in (("left", left), ("right", right))
        ]
        (
            parts
            | beam.Flatten()
            | beam.WindowInto(window.FixedWindows(10))
            | beam.CombinePerKey(sum)
            | gathered.sink("key string, total bigint")
        )
        return finished(p)

    run()
    assert gathered.rows == []  # the right one's watermark stands at 2
    right.put(row("a", 200, at=12))
    run()
    assert gathered.rows == [("a", 101)]
    left.put(row("a", 4, at=30))
    right.put(row("a", 400, at=30))
    run()
    assert gathered.rows == [("a", 101), ("a", 202)]


@pytest.mark.also_on_spark
def test_a_bounded_frame_and_a_stream_are_read_side_by_side(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([window.TimestampedValue(("a", 1), 5)])
        .advance_watermark_to(20)
        .advance_watermark_to_infinity()
    )
    bounded = session_of().createDataFrame(
        [("a", 10, 5), ("b", 20, 15)], "k string, v long, at long"
    )
    with streaming() as p:
        rows = (
            p
            | ReadFromSpark(bounded, timestamp="at")
            | beam.Map(lambda r: (r.k, r.v)).with_output_types(tuple[str, int])
        )
        streamed = p | stream | beam.Map(as_it_is).with_output_types(tuple[str, int])
        (
            (rows, streamed)
            | beam.Flatten()
            | beam.WindowInto(window.FixedWindows(10))
            | beam.CombinePerKey(sum)
            | jot(out)
        )
    assert sorted(jotted(out)) == [("a", 11), ("b", 20)]


def test_a_script_goes_on_at_the_step_that_failed_and_never_plays_twice(tmp_path: Path) -> None:
    """The clock of the test stream goes on too: 5 seconds had passed, 5 more are to come."""
    gathered = Gathered()

    def run(check: Callable[[tuple[str, int]], tuple[str, int]]) -> StreamResult:
        stream = (
            test_stream.TestStream(coder=coders.FastPrimitivesCoder())
            .add_elements([("a", 1)])
            .advance_processing_time(5)
            .add_elements([("a", -2)])
            .advance_processing_time(5)
            .add_elements([("a", 4)])
        )
        p = checkpointed(tmp_path, shards=1)
        (
            p
            | "Stream" >> stream
            | "Check" >> beam.Map(check).with_output_types(tuple[str, int])
            | "Running" >> beam.ParDo(Running())
            | "Gather" >> gathered.sink("key string, total bigint")
        )
        return finished(p)

    with pytest.raises(Poisoned):
        run(refuse_negative)
    assert gathered.rows == [("a", 1)]
    result = run(make_positive)
    assert gathered.rows == [("a", 1), ("a", 3), ("a", 7)]
    assert result._stream._run.facts.clock.now() == 10_000_000
    played = dict(gathered.epochs)
    assert run(make_positive).stream_status.epoch == result.stream_status.epoch
    assert gathered.epochs == played  # a pipeline that has ended has nothing left to do
