"""A generator's events as the start of a pipeline: all of them, once, in time, with a watermark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from headrace.lab.data import beam_source
from headrace.lab.data.beam_source import BLOCK_EVENTS, Events, _Open, _OwnBlocks, _Read
from headrace.lab.data.timeline import Timeline
from headrace.runner import SparkRunner


@dataclass(frozen=True)
class Numbers:
    """Makes the numbers themselves, shuffled in groups of ten, 1,000 a second."""

    events: int
    rate: int = 1_000

    @property
    def line(self) -> Timeline:
        return Timeline(base_ms=0, rate=self.rate, group=10)

    def elements(self, start: int, count: int) -> tuple[list[int], list[int]]:
        numbers = list(range(start, start + count))
        return numbers, [self.line.micros_of_place(n // 10 * 10 + n * 953 % 10) for n in numbers]

    def watermark(self, number: int) -> int:
        return self.line.watermark(number, self.events)

    def due(self, number: int) -> int:
        return self.line.due(number)


def stamped(number: int, moment: Any = beam.DoFn.TimestampParam) -> tuple[int, int]:
    return number, moment.micros


@pytest.mark.parametrize("streaming", [False, True])
def test_beams_local_runner_gets_every_event_once_with_its_time(streaming: bool) -> None:
    events = Numbers(2 * BLOCK_EVENTS + 17)
    with beam.Pipeline(FnApiRunner()) as p:
        found = p | Events(events, streaming=streaming, readers=3) | beam.Map(stamped)  # type: ignore[arg-type]
        assert_that(found, equal_to(list(zip(*events.elements(0, events.events), strict=True))))


@pytest.mark.spark
@pytest.mark.parametrize("flags", [[], ["--streaming", "--max_bundle_seconds=0.05"]])
def test_headrace_gets_every_event_once_whatever_the_number_of_epochs(
    spark: Any, flags: list[str]
) -> None:
    events = Numbers(300_000)
    options = PipelineOptions(["--shards=2", "--progress=off", *flags])
    with beam.Pipeline(SparkRunner(spark), options) as p:
        counts = (
            p
            | Events(events, streaming=bool(flags), readers=3)  # type: ignore[arg-type]
            | beam.WindowInto(FixedWindows(10))
            | beam.Map(lambda n: (n % 2, 1))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (*pair, int(w.start)))
        )
        expected = [(k, 5_000, start) for k in (0, 1) for start in range(0, 300, 10)]
        assert_that(counts, equal_to(expected))


def test_blocks_give_what_events_one_by_one_give() -> None:
    step = _Open(Numbers(1_000))  # type: ignore[arg-type]
    values, times = step.headrace_block((100, 50))
    alone = [(v.value, v.timestamp.micros) for v in step.process((100, 50))]
    assert alone == list(zip(values, times, strict=True))


class Tracker:
    """Claims blocks until it is told to stop."""

    def __init__(self, start: int, stop: int, most: int = 1_000) -> None:
        self.range, self.most = OffsetRange(start, stop), most
        self.claimed: list[int] = []
        self.deferred: Any = None

    def current_restriction(self) -> OffsetRange:
        return self.range

    def try_claim(self, block: int) -> bool:
        if len(self.claimed) == self.most:
            return False
        self.claimed.append(block)
        return True

    def defer_remainder(self, duration: Any) -> None:
        self.deferred = duration


class Estimator:
    """Keeps the marks it is given."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def set_watermark(self, mark: Any) -> None:
        self.marks.append(mark.micros)


def read(step: _Read, reader: int, started: int, tracker: Tracker) -> tuple[list[Any], list[int]]:
    estimator = Estimator()
    blocks: Iterator[Any] = step.process((reader, tracker.range.stop, started), tracker, estimator)
    return [(*block.value, block.timestamp.micros) for block in blocks], estimator.marks


def test_readers_take_blocks_in_turn_and_tell_how_far_each_is() -> None:
    events = Numbers(95)
    step = _Read(events, readers=2, size=20, pace=False)  # type: ignore[arg-type]
    blocks, marks = read(step, 1, 0, Tracker(0, 2))
    assert blocks == [(20, 20, 20_000), (60, 20, 60_000)]
    assert marks == [20_000, 60_000]
    blocks, _ = read(step, 0, 0, Tracker(0, 3))
    assert [b[:2] for b in blocks] == [(0, 20), (40, 20), (80, 15)]  # the last one is not whole


def test_a_reader_that_is_stopped_has_told_the_watermark_of_what_is_left() -> None:
    blocks, marks = read(_Read(Numbers(95), 1, 20, False), 0, 0, Tracker(1, 5, most=2))  # type: ignore[arg-type]
    assert [b[0] for b in blocks] == [20, 40]
    assert marks[-1] == 60_000


def test_a_paced_reader_puts_off_what_is_not_due() -> None:
    now = time.time_ns() // 1_000
    tracker = Tracker(0, 5)
    step = _Read(Numbers(100, rate=10), readers=1, size=20, pace=True)  # type: ignore[arg-type]
    blocks, marks = read(step, 0, now - 3_000_000, tracker)  # 3 s ago: 30 events are due
    assert [b[:2] for b in blocks] == [(0, 20)]
    assert marks[-1] == 2_000_000
    assert 0 < tracker.deferred.micros <= 900_000  # event 39 is due 3.9 s after the start


def test_a_paced_block_is_short_where_events_are_rare() -> None:
    assert beam_source._paced_block(Numbers(10_000, rate=1)) == 1  # type: ignore[arg-type]
    assert beam_source._paced_block(Numbers(10_000, rate=1_000)) <= 20  # type: ignore[arg-type]
    assert beam_source._paced_block(Numbers(10_000, rate=10_000_000)) == BLOCK_EVENTS  # type: ignore[arg-type]


def test_a_drain_ends_a_reader_where_it_is() -> None:
    assert _OwnBlocks().truncate((0, 5, 0), OffsetRange(2, 5)) is None  # type: ignore[func-returns-value]
