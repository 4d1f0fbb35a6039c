"""Splittable DoFns, Beam's unbounded sources and periodic impulses, through epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.io import restriction_trackers
from apache_beam.io.unbounded_source import CheckpointMark, UnboundedReader, UnboundedSource
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.testing import test_stream
from apache_beam.transforms import core, periodicsequence, window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from headrace.worker.userstate.splitter import splitting
from tests.streaming.harness import checkpointed, jot, jotted, started, streaming, until

pytestmark = [pytest.mark.timeout(120, func_only=True)]

class Ranges(core.RestrictionProvider):  # type: ignore[misc]
    """The element is the number of positions."""

    def create_tracker(self, restriction: Any) -> Any:
        return restriction_trackers.OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element: int) -> Any:
        return restriction_trackers.OffsetRange(0, element)

    def restriction_size(self, element: int, restriction: Any) -> int:
        del element
        return int(restriction.size())

    def truncate(self, element: int, restriction: Any) -> Any:
        del element, restriction


class Whole(Ranges):
    """Told to end, it wants to do all that is left."""

    def truncate(self, element: int, restriction: Any) -> Any:
        del element
        return restriction


RANGES = core.DoFn.RestrictionParam(Ranges())
WHOLE = core.DoFn.RestrictionParam(Whole())
MANUAL = core.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Deferring(beam.DoFn):  # type: ignore[misc]
    """Puts out two positions at a time, then asks for ten seconds; position n has time n."""

    @core.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self, element: int, tracker: Any = RANGES, watermark: Any = MANUAL
    ) -> Iterator[Any]:
        del element
        start = position = tracker.current_restriction().start
        while tracker.try_claim(position):
            watermark.set_watermark(Timestamp(position))
            yield window.TimestampedValue(position, position)
            position += 1
            if position == start + 2:
                watermark.set_watermark(Timestamp(position))
                tracker.defer_remainder(Duration(10))
                return


def test_a_rest_put_off_goes_on_when_its_time_has_come_and_holds_the_watermark(
    tmp_path: Path,
) -> None:
    """Windows of two seconds close as the rest's own watermark moves on, two every ten seconds."""
    out, closed = tmp_path / "out", tmp_path / "closed"
    marks: list[int] = []
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .add_elements([5])
        .advance_watermark_to_infinity()
        .advance_processing_time(5)
        .advance_processing_time(5)
    )
    p = streaming(shards=1)
    found = p | stream | "Deferring" >> beam.ParDo(Deferring())
    found | jot(out)
    (
        found
        | beam.WindowInto(window.FixedWindows(2))
        | beam.Map(lambda x: ("k", x))
        | "Sum" >> beam.CombinePerKey(sum)
        | "closed" >> jot(closed)
    )
    result = p.run()
    result._stream.on_epoch = lambda status: marks.append(
        min(out // 1_000_000 for _, out in status.watermarks.values())
    )
    result.wait_until_finish()
    assert jotted(out) == [0, 1, 2, 3, 4]
    assert sorted(jotted(closed)) == [("k", 1), ("k", 4), ("k", 5)]
    # What the rest may still put out is all that holds the watermark: 2, then 4, then nothing.
    assert {2, 4} <= set(marks)
    assert marks == sorted(marks)


class Endless(beam.DoFn):  # type: ignore[misc]
    """Never returns before its restriction ends, and that never does."""

    @core.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, element: int, tracker: Any = RANGES) -> Iterator[int]:
        del element
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position
            position += 1
            time.sleep(0.01)


def test_a_splittable_dofn_that_never_returns_is_split_by_the_clock(tmp_path: Path) -> None:
    out = tmp_path / "out"
    p = streaming("--max_bundle_seconds=0.2", shards=1)
    p | beam.Create([1 << 40], reshuffle=False) | beam.ParDo(Endless()) | jot(out)
    with started(p) as result:
        until(lambda: result.stream_status.epoch >= 3)
        assert result.cancel() == "CANCELLED"
    found = jotted(out)
    # Nothing is missed and nothing done twice, except in the epoch that was cut off.
    assert found[: found.index(max(found)) + 1] == list(range(max(found) + 1))


def test_a_drain_ends_a_splittable_dofn_that_would_never_end(tmp_path: Path) -> None:
    out, total = tmp_path / "out", tmp_path / "total"
    p = streaming("--max_bundle_seconds=0.2", shards=1)
    found = p | beam.Create([1 << 40], reshuffle=False) | beam.ParDo(Endless())
    found | jot(out)
    (
        found
        | beam.WindowInto(window.FixedWindows(10))
        | beam.combiners.Count.Globally().without_defaults()
        | "total" >> jot(total)
    )
    with started(p) as result:
        until(lambda: result.stream_status.epoch >= 2)
        assert result.drain(30_000) == "DRAINED"
    # The window closes with the drain and holds all that came out.
    assert jotted(total) == [len(jotted(out))]
    assert jotted(out) == list(range(len(jotted(out))))


class Lazily(beam.DoFn):  # type: ignore[misc]
    """One position at a time, an hour apart."""

    @core.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, element: int, tracker: Any = WHOLE) -> Iterator[int]:
        del element
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder(Duration(3600))


def test_a_drain_lets_a_splittable_dofn_say_what_of_its_rest_is_still_done(
    tmp_path: Path,
) -> None:
    """`truncate` gives all of the rest back, so all of it comes out; nobody waits an hour."""
    out = tmp_path / "out"
    p = streaming(shards=1)
    p | beam.Create([4], reshuffle=False) | beam.ParDo(Lazily()) | jot(out)
    with started(p) as result:
        until(lambda: result.stream_status.epoch >= 0)
        assert result.drain(30_000) == "DRAINED"
    assert jotted(out) == [0, 1, 2, 3]


class Mark(CheckpointMark):  # type: ignore[misc]
    """How far a reader has come; writes itself down once that is confirmed."""

    def __init__(self, position: int, step: int, acknowledged: str) -> None:
        self.position, self._step, self._acknowledged = position, step, acknowledged

    def finalize_checkpoint(self) -> None:
        with open(self._acknowledged, "a", encoding="utf-8") as file:
            file.write(f"({self._step}, {self.position})\n")


class Numbers(UnboundedSource):  # type: ignore[misc]
    """0 to 5: the even ones from one split, the odd ones from the other. Pauses after two."""

    def __init__(self, acknowledged: str, start: int = 0) -> None:
        self.acknowledged, self.start = acknowledged, start

    def split(self, desired_num_splits: int, options: Any = None) -> list[Any]:
        del desired_num_splits, options
        return [Numbers(self.acknowledged, 0), Numbers(self.acknowledged, 1)]

    def create_reader(self, options: Any, checkpoint_mark: Any) -> Any:
        del options
        return Reader(self, self.start - 2 if checkpoint_mark is None else checkpoint_mark.position)

    def get_checkpoint_mark_coder(self) -> Any:
        return coders.PickleCoder()

    def default_output_coder(self) -> Any:
        return coders.VarIntCoder()


class Reader(UnboundedReader):  # type: ignore[misc]
    def __init__(self, source: Numbers, last: int) -> None:
        self._source, self._last, self._read = source, last, 0

    def start(self) -> bool:
        return self.advance()

    def advance(self) -> bool:
        if self._last >= 4 or self._read == 2:
            self._read = 0
            return False
        self._last += 2
        self._read += 1
        return True

    def get_current(self) -> int:
        return self._last

    def get_current_timestamp(self) -> Timestamp:
        return Timestamp(self._last)

    def get_watermark(self) -> Timestamp:
        return MAX_TIMESTAMP if self._last >= 4 else Timestamp(self._last)

    def get_checkpoint_mark(self) -> Mark:
        return Mark(self._last, self._source.start, self._source.acknowledged)


def test_an_unbounded_source_of_beam_is_read_to_its_end_and_acknowledged(tmp_path: Path) -> None:
    out, acknowledged = tmp_path / "out", tmp_path / "acknowledged"
    p = streaming()
    (
        p
        | beam.io.Read(Numbers(str(acknowledged)))
        | beam.WindowInto(window.FixedWindows(2))
        | beam.Map(lambda x: ("k", x))
        | beam.CombinePerKey(sum)
        | jot(out)
    )
    result = p.run()
    assert result.wait_until_finish(40_000) == "DONE"
    # Windows [0, 2), [2, 4), [4, 6) hold one even and one odd number each.
    assert sorted(jotted(out)) == [("k", 1), ("k", 5), ("k", 9)]
    # Of the marks that were confirmed, the last one of each split is its end.
    marks = jotted(acknowledged)
    assert {max(at for split, at in marks if split == which) for which in (0, 1)} == {4, 5}


def test_a_periodic_impulse_of_a_bounded_span_comes_out_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    start = time.time()
    p = streaming(shards=1)
    (
        p
        | periodicsequence.PeriodicImpulse(start, start + 0.5, fire_interval=0.1)
        | beam.WindowInto(window.FixedWindows(1000))
        | beam.Map(lambda x: ("k", x))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, times: len(list(times)))
        | jot(out)
    )
    result = p.run()
    assert result.wait_until_finish(30_000) == "DONE"
    assert sum(jotted(out)) == 5


@pytest.mark.also_on_spark
def test_a_rest_that_was_put_off_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The second start finds the rest of the first in the checkpoint, on another shard count."""
    out = tmp_path / "out"

    def build(shards: int) -> beam.Pipeline:
        p = checkpointed(tmp_path, "--max_bundle_seconds=0.2", shards=shards)
        p | beam.Create([1 << 40], reshuffle=False) | beam.ParDo(Endless()) | jot(out)
        return p

    with started(build(1)) as result:
        until(lambda: result.stream_status.epoch >= 1)
    before = jotted(out)
    committed = result.stream_status.epoch
    with started(build(2)) as result:
        until(lambda: result.stream_status.epoch >= committed + 2)
    after = jotted(out)[len(before):]
    # It goes on where the last committed epoch ended: not at 0, and with no number left out.
    assert 0 < after[0] <= max(before) + 1
    assert after[: after.index(max(after)) + 1] == list(range(after[0], max(after) + 1))


class Unsplittable:
    """An operation whose tracker fails when it is asked to split."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def try_split(self, fraction: float) -> Any:
        del fraction
        self.asked.set()
        message = "no place to split"
        raise ArithmeticError(message)


def test_a_tracker_that_fails_in_a_split_fails_the_epoch(caplog: pytest.LogCaptureFixture) -> None:
    """Left alone, the fault would end the splitting thread, and nobody would ever know."""
    op, taken = Unsplittable(), []

    def take(*found: Any) -> None:
        taken.append(found)

    with pytest.raises(ArithmeticError, match="no place to split"):
        with splitting([("Step", op)], 0.0, take):
            assert op.asked.wait(60)
    assert taken == []
    assert "Step cannot be split" in caplog.text


def test_the_fault_of_a_dofn_is_not_hidden_by_that_of_its_tracker() -> None:
    op = Unsplittable()
    with pytest.raises(KeyError, match="the first"):
        with splitting([("Step", op)], 0.0, lambda *_: None):
            assert op.asked.wait(60)
            raise KeyError("the first")  # noqa: EM101 (short)
