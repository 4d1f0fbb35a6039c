"""A generator's events as the start of a Beam pipeline, bounded or not.

The work is dealt out in blocks of event numbers: small elements that travel cheaply, opened into
events by the step that follows. The unbounded source is a splittable DoFn whose restriction is a
range of blocks; so it can stop after any block, go on in another process, and make the same events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from headrace.lab.data.generator import Generator
from headrace.plan.traits import traits

#: Events in a block: enough for generators to work in columns, few enough to stay in cache.
BLOCK_EVENTS = 8_192
#: A paced block holds what is due in this time, at most: events must not wait for each other long.
PACED_MICROS = 20_000
#: Blocks of the bounded source that are dealt out as one piece of work.
PIECE_BLOCKS = 16


class Events(beam.PTransform):  # type: ignore[misc]
    """Read the events of a generator, each with its event time, in the global window.

    Args:
        generator: makes the events.
        streaming: an unbounded source with a watermark; else a bounded one.
        readers: how many readers share the unbounded source. They take its blocks in turn, so all
            of them are equally far in event time.
        pace: deliver every event when it is due after the start of the run, not before; only of
            use with `streaming`. A run that was stopped catches up.
    """

    def __init__(
        self, generator: Generator, *, streaming: bool, readers: int = 4, pace: bool = False
    ) -> None:
        super().__init__()
        self._generator = generator
        self._streaming = streaming
        self._readers = readers
        self._pace = pace

    def expand(self, pbegin: Any) -> Any:
        """Make the collection of events."""
        begin = pbegin | beam.Impulse()
        if self._streaming:
            size = _paced_block(self._generator) if self._pace else BLOCK_EVENTS
            blocks = -(-self._generator.events // size)
            opened = (
                begin
                | "Readers" >> beam.ParDo(_Deal(self._readers, blocks))
                | "Blocks" >> beam.ParDo(_Read(self._generator, self._readers, size, self._pace))
            )
        else:
            opened = (
                begin
                | "Pieces" >> beam.FlatMap(_Pieces(self._generator.events))
                | beam.Reshuffle()
                | "Blocks" >> beam.FlatMap(_blocks_of)
            )
        return opened | "Open" >> beam.ParDo(_Open(self._generator))


def _paced_block(generator: Generator) -> int:
    """Find how many events are due in one short while."""
    size = 1
    while size < BLOCK_EVENTS and generator.due(size * 2) <= PACED_MICROS:
        size *= 2
    return size


class _Pieces:
    """Gives ranges of event numbers, as (start, count)."""

    def __init__(self, events: int) -> None:
        self._events = events

    def __call__(self, _: bytes) -> Iterator[tuple[int, int]]:
        size = BLOCK_EVENTS * PIECE_BLOCKS
        for start in range(0, self._events, size):
            yield start, min(size, self._events - start)


def _blocks_of(piece: tuple[int, int]) -> list[tuple[int, int]]:
    start, count = piece
    ends = range(start, start + count, BLOCK_EVENTS)
    return [(s, min(BLOCK_EVENTS, start + count - s)) for s in ends]


class _Deal(beam.DoFn):  # type: ignore[misc]
    """Gives every reader its work: (reader, its number of blocks, start of the run).

    The start, in microseconds, goes into the readers' state: a run that is started again keeps its
    schedule.
    """

    def __init__(self, readers: int, blocks: int) -> None:
        self._readers = readers
        self._blocks = blocks

    def process(self, element: bytes) -> Iterator[tuple[int, int, int]]:
        """Deal the blocks out in turn."""
        del element
        started = time.time_ns() // 1_000
        for reader in range(self._readers):
            yield reader, len(range(reader, self._blocks, self._readers)), started


class _OwnBlocks(beam.transforms.core.RestrictionProvider):  # type: ignore[misc]
    """The restriction of a reader: its own blocks, numbered from 0."""

    def initial_restriction(self, element: tuple[int, int, int]) -> OffsetRange:
        return OffsetRange(0, element[1])

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        del element
        return restriction.size()  # type: ignore[no-any-return]

    def truncate(self, element: Any, restriction: OffsetRange) -> None:
        """A drain ends an unbounded source where it is."""


@traits(state="none", deterministic=True)
class _Read(beam.DoFn):  # type: ignore[misc]
    """Gives one reader's blocks, as (start, count)."""

    def __init__(self, generator: Generator, readers: int, size: int, pace: bool) -> None:
        self._generator = generator
        self._readers = readers
        self._size = size
        self._pace = pace

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: tuple[int, int, int],
        tracker: Any = beam.DoFn.RestrictionParam(_OwnBlocks()),  # noqa: B008 (Beam's own way)
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(  # noqa: B008
            ManualWatermarkEstimator.default_provider()  # noqa: B008
        ),
    ) -> Iterator[Any]:
        """Claim block after block; stop where the next one is not due yet."""
        reader, _, started = element
        generator, size, step = self._generator, self._size, self._readers * self._size
        own = tracker.current_restriction()
        for block in range(own.start, own.stop):
            start = reader * size + block * step
            count = min(size, generator.events - start)
            mark = Timestamp(micros=generator.watermark(start))
            estimator.set_watermark(mark)
            if self._pace:
                early = started + generator.due(start + count - 1) - time.time_ns() // 1_000
                if early > 0:
                    tracker.defer_remainder(Duration(micros=early))
                    return
            if not tracker.try_claim(block):
                return
            yield TimestampedValue((start, count), mark)


@traits(state="none", selectivity="many", deterministic=True)
class _Open(beam.DoFn):  # type: ignore[misc]
    """Makes the events of a block."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def process(self, block: tuple[int, int]) -> Iterator[TimestampedValue]:
        """Give the events one by one, as any runner takes them."""
        values, times = self._generator.elements(*block)
        for value, micros in zip(values, times, strict=True):
            yield TimestampedValue(value, Timestamp(micros=micros))

    def headrace_block(self, block: tuple[int, int]) -> tuple[list[Any], list[int]]:
        """Give the same events all at once: see `headrace.plan.traits.BLOCK_METHOD`."""
        return self._generator.elements(*block)
