"""Event time and processing time, step by step on the virtual clock of a test stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from tests.streaming.harness import finished, jot, jotted, streaming

pytestmark = [pytest.mark.timeout(120, func_only=True)]

WALL = TimerSpec("wall", beam.TimeDomain.REAL_TIME)
EVENT = TimerSpec("event", beam.TimeDomain.WATERMARK)
WALL_PARAM = beam.DoFn.TimerParam(WALL)
EVENT_PARAM = beam.DoFn.TimerParam(EVENT)
NEXT = TimerSpec("next", beam.TimeDomain.WATERMARK)
NEXT_PARAM = beam.DoFn.TimerParam(NEXT)
COUNT = CombiningValueStateSpec("count", sum)
COUNT_PARAM = beam.DoFn.StateParam(COUNT)
CELL = ReadModifyWriteStateSpec("cell", coders.VarIntCoder())
CELL_PARAM = beam.DoFn.StateParam(CELL)


class Alarm(beam.DoFn):  # type: ignore[misc]
    """Rings when the clock is at the number it was given; then twice more, ten seconds apart."""

    def process(self, element: Any, wall: Any = WALL_PARAM) -> Iterator[Any]:
        key, at = element
        wall.set(Timestamp(at))
        yield key, "set"

    @on_timer(WALL)  # type: ignore[untyped-decorator]
    def ring(
        self, key: Any = beam.DoFn.KeyParam, wall: Any = WALL_PARAM, count: Any = COUNT_PARAM,
    ) -> Iterator[Any]:
        count.add(1)
        rung = count.read()
        if rung < 3:
            wall.set(Timestamp(10 + 10 * rung))
        yield key, rung


@pytest.mark.also_on_spark
def test_a_processing_time_timer_fires_when_the_clock_has_come_and_sets_the_next(
    tmp_path: Path,
) -> None:
    """Rings at 10, 20 and 30; the clock stands at 0, 5, 15 and 25, and ends with the stream."""
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .add_elements([("a", 10)])
        .advance_processing_time(5)
        .add_elements([("-", 1000)])
        .advance_processing_time(10)
        .add_elements([("=", 1000)])
        .advance_processing_time(10)
        .add_elements([("#", 1000)])
    )
    out = tmp_path / "out"
    with streaming(shards=1) as p:
        p | stream | beam.ParDo(Alarm()) | jot(out)
    at_end = [row for row in jotted(out) if row[0] == "a" or row[1] == "set"]
    assert at_end[:6] == [
        ("a", "set"), ("-", "set"), ("a", 1), ("=", "set"), ("a", 2), ("#", "set"),
    ]
    assert at_end[6:] == [("a", 3)]


class Tagged(beam.DoFn):  # type: ignore[misc]
    """Sets a timer under a tag; the same tag again moves it."""

    def process(self, element: Any, event: Any = EVENT_PARAM) -> None:
        _, (tag, at) = element
        if at is None:
            event.clear(dynamic_timer_tag=tag)
        else:
            event.set(Timestamp(at), dynamic_timer_tag=tag)

    @on_timer(EVENT)  # type: ignore[untyped-decorator]
    def ring(
        self, key: Any = beam.DoFn.KeyParam, tag: Any = beam.DoFn.DynamicTimerTagParam,
        at: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[Any]:
        yield key, tag, at.micros // 1_000_000


def test_timers_under_tags_are_set_moved_and_cleared_each_by_itself(tmp_path: Path) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([("k", ("x", 10)), ("k", ("y", 10)), ("k", ("z", 10)), ("m", ("x", 30))])
        .add_elements([("k", ("y", 20)), ("k", ("z", None))])
        .advance_watermark_to(15)
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    with streaming() as p:
        p | stream | beam.ParDo(Tagged()) | jot(out)
    found = jotted(out)
    assert found[0] == ("k", "x", 10)
    assert sorted(found) == [("k", "x", 10), ("k", "y", 20), ("m", "x", 30)]


class Chain(beam.DoFn):  # type: ignore[misc]
    """An event-time timer that sets the next one, ten seconds on, up to 50."""

    def process(self, element: Any, following: Any = NEXT_PARAM) -> None:
        del element
        following.set(Timestamp(10))

    @on_timer(NEXT)  # type: ignore[untyped-decorator]
    def ring(
        self, at: Any = beam.DoFn.TimestampParam, following: Any = NEXT_PARAM
    ) -> Iterator[int]:
        seconds = at.micros // 1_000_000
        if seconds < 50:
            following.set(Timestamp(seconds + 10))
        yield seconds


def test_a_timer_set_by_a_timer_fires_in_the_same_epoch_if_it_is_due(tmp_path: Path) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([("k", 0)])
        .advance_watermark_to(35)
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    marked = tmp_path / "marked"
    with streaming(shards=1) as p:
        rung = p | stream | beam.ParDo(Chain())
        rung | jot(out)
        # A second reader, whose own timers tell in which epoch the first ones rang.
        (
            rung
            | beam.WindowInto(window.FixedWindows(10))
            | beam.combiners.Count.Globally().without_defaults()
            | "marked" >> jot(marked)
        )
    assert jotted(out) == [10, 20, 30, 40, 50]
    assert jotted(marked) == [1, 1, 1, 1, 1]


def test_the_hold_of_a_timer_is_seen_in_the_watermarks(tmp_path: Path) -> None:
    """The timer may put out at 10, so nobody downstream may believe in more than 10."""
    seen: list[dict[str, tuple[int, int]]] = []
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([("k", ("x", 10))])
        .advance_watermark_to(7)
        .advance_watermark_to(12)
        .advance_watermark_to_infinity()
    )
    p = streaming(shards=1)
    p | stream | "Tagged" >> beam.ParDo(Tagged()) | jot(tmp_path / "out")
    result = p.run()
    result._stream.on_epoch = lambda status: seen.append(dict(status.watermarks))
    result.wait_until_finish()
    ((name, _),) = [(n, w) for n, w in seen[-1].items() if "Tagged" in n]
    marks = {tuple(m // 1_000_000 for m in epoch[name]) for epoch in seen if name in epoch}
    assert (7, 7) in marks
    assert (12, 12) in marks
    assert result.watermarks()[name] == (MAX_TIMESTAMP, MAX_TIMESTAMP)


def test_a_processing_time_trigger_fires_when_the_delay_is_over(tmp_path: Path) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([("k", 1)])
        .advance_processing_time(3)
        .add_elements([("k", 2)])
        .advance_processing_time(3)
        .add_elements([("k", 4)])
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    with streaming(shards=1) as p:
        (
            p
            | stream
            | beam.WindowInto(
                window.FixedWindows(60),
                trigger=trigger.Repeatedly(trigger.AfterProcessingTime(5)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.CombinePerKey(sum)
            | jot(out)
        )
    # The first delay runs from 0 to 5 and is seen to be over at 6; the 4 waits for the end.
    assert jotted(out) == [("k", 3), ("k", 4)]


@pytest.mark.also_on_spark
def test_late_data_within_the_lateness_makes_a_late_pane_and_beyond_it_is_counted(
    tmp_path: Path,
) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([window.TimestampedValue(("k", 1), 5)])
        .advance_watermark_to(12)
        .add_elements([window.TimestampedValue(("k", 2), 6)])
        .advance_watermark_to(21)
        .add_elements([window.TimestampedValue(("k", 4), 7)])
        .add_elements([window.TimestampedValue(("k", 8), 25)])
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    p = streaming(shards=1)
    (
        p
        | stream
        | beam.WindowInto(
            window.FixedWindows(10),
            trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
            allowed_lateness=10,
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        )
        | beam.CombinePerKey(sum)
        | beam.Map(
            lambda kv, w=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam: (
                kv[1], int(w.start), int(pane.timing), pane.index, pane.is_last,
            )
        )
        | jot(out)
    )
    result = finished(p)
    # Timing 1 is on time, 2 is late. The 4 came after the end of its window and its lateness.
    assert [row[:4] for row in jotted(out)] == [(1, 0, 1, 0), (3, 0, 2, 1), (8, 20, 1, 0)]
    assert result.stream_status.elements_late == 1


class Keeps(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, cell: Any = CELL_PARAM) -> Iterator[Any]:
        cell.write((cell.read() or 0) + element[1])
        yield element[0], cell.read()


def test_state_is_gone_once_its_window_and_lateness_have_passed(tmp_path: Path) -> None:
    rows: list[int] = []
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([window.TimestampedValue((key, 1), 5) for key in "abc"])
        .advance_watermark_to(14)
        .add_elements([window.TimestampedValue(("a", 2), 5)])
        .advance_watermark_to(16)
        .add_elements([window.TimestampedValue(("d", 4), 25)])
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    p = streaming(shards=1)
    (
        p
        | stream
        | beam.WindowInto(window.FixedWindows(10), allowed_lateness=5)
        | beam.ParDo(Keeps())
        | jot(out)
    )
    result = p.run()
    result._stream.on_epoch = lambda status: rows.append(status.state_rows)
    result.wait_until_finish()
    assert sorted(jotted(out)) == [("a", 1), ("a", 3), ("b", 1), ("c", 1), ("d", 4)]
    # The watermark 16 is past 9.999 + 5. What is left at the end goes with the pipeline.
    first, full, empty, last = (size for size, _ in groupby(rows))
    assert first == empty == 0
    assert full > last > 0


def test_epochs_without_elements_move_the_watermark_and_put_nothing_out(tmp_path: Path) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .add_elements([])
        .advance_watermark_to(100)
        .add_elements([])
        .advance_processing_time(1)
        .advance_watermark_to_infinity()
    )
    out = tmp_path / "out"
    p = streaming()
    p | stream | beam.WindowInto(window.FixedWindows(10)) | beam.GroupByKey() | jot(out)
    result = finished(p)
    assert jotted(out) == []
    assert result.state == "DONE"
    assert result.stream_status.state_rows == 0


def test_each_output_of_a_test_stream_has_its_own_watermark(tmp_path: Path) -> None:
    """The flattened pair must wait for the slower one; each alone does not."""
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder(), output_tags={"fast", "slow"})
        .advance_watermark_to(0, tag="fast")
        .advance_watermark_to(0, tag="slow")
        .add_elements([window.TimestampedValue(("k", 1), 1)], tag="fast")
        .add_elements([window.TimestampedValue(("k", 2), 2)], tag="slow")
        .advance_watermark_to(20, tag="fast")
        .add_elements([window.TimestampedValue(("k", 4), 3)], tag="slow")
        .advance_watermark_to(20, tag="slow")
        .advance_watermark_to_infinity(tag="fast")
        .advance_watermark_to_infinity(tag="slow")
    )
    out = tmp_path / "out"
    with streaming(shards=1) as p:
        found = p | stream
        parts = {"fast": found["fast"], "slow": found["slow"]}
        parts["both"] = (found["fast"], found["slow"]) | beam.Flatten()
        for name, part in parts.items():
            (
                part
                | f"window {name}" >> beam.WindowInto(window.FixedWindows(10))
                | f"sum {name}" >> beam.CombinePerKey(sum)
                | f"name {name}" >> beam.Map(lambda kv, name=name: (name, kv[1]))
                | f"jot {name}" >> jot(out)
            )
    rows = jotted(out)
    assert sorted(rows) == [("both", 7), ("fast", 1), ("slow", 6)]
    assert rows[0] == ("fast", 1)
