"""Data engines as an unbounded source of a Beam pipeline, for runners without DataFrames.

A splittable DoFn with one restriction per partition, a range of offsets. Events are acknowledged
when the bundle that read them is final. Event times and watermark come from the column `time`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed

#: Events of one answer.
EVENTS_PER_PULL = 8_192
#: How long to leave an empty queue alone.
WAIT_SECONDS = 0.02
#: How long one call may wait for events and go on with more.
CALL_SECONDS = 0.2

#: Makes the elements of a pipeline from a batch of events.
Open = Callable[[pa.RecordBatch], list[Any]]


class ReadFromEngine(beam.PTransform):  # type: ignore[misc]
    """Read the events of some data engines, each with its event time.

    Args:
        feed: where the engines are.
        elements: makes elements of a batch, in its order.
        give_way: seconds after which a call comes to its end though there are more events, for
            runners that do not ask for that themselves.
    """

    def __init__(self, feed: Feed, elements: Open, give_way: float = math.inf) -> None:
        super().__init__()
        self._feed = feed
        self._elements = elements
        self._give_way = give_way

    def expand(self, pbegin: Any) -> Any:
        """Make the collection of events."""
        return (
            pbegin
            | beam.Create(list(self._feed.addresses), reshuffle=False)
            | "Read" >> beam.ParDo(_Read(self._elements, self._give_way))
        )


class _Offsets(beam.transforms.core.RestrictionProvider):  # type: ignore[misc]
    """The restriction of a partition: all its offsets."""

    def initial_restriction(self, element: str) -> OffsetRange:
        with EngineClient(element) as client:
            return OffsetRange(0, client.status().total)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: OffsetRange) -> int:
        del element
        return restriction.size()  # type: ignore[no-any-return]

    def truncate(self, element: Any, restriction: OffsetRange) -> None:
        """A drain ends an unbounded source where it is."""


class _Acknowledge:
    """Says to an engine what is final."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.until = 0

    def __call__(self) -> None:
        with EngineClient(self._address) as client:
            client.acknowledge(self.until)


class _Read(beam.DoFn):  # type: ignore[misc]
    """Takes the events of one partition."""

    def __init__(self, elements: Open, give_way: float) -> None:
        self._elements, self._give_way = elements, give_way

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: str,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,  # before the others, or Beam mixes them up
        tracker: Any = beam.DoFn.RestrictionParam(_Offsets()),  # noqa: B008 (Beam's own way)
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(  # noqa: B008
            ManualWatermarkEstimator.default_provider()  # noqa: B008
        ),
    ) -> Iterator[Any]:
        """Claim what is there; come back later for the rest."""
        own = tracker.current_restriction()
        at = own.start
        final = _Acknowledge(element)
        end = time.monotonic() + self._give_way
        with EngineClient(element) as client:
            while at < own.stop:
                left = end - time.monotonic()
                if left <= 0:
                    tracker.defer_remainder()
                    return
                batches, status = client.pull(
                    at, min(EVENTS_PER_PULL, own.stop - at), wait=min(CALL_SECONDS, left)
                )
                count = sum(batch.num_rows for batch in batches)
                if not count:
                    if not status.ended:
                        tracker.defer_remainder(Duration(micros=int(WAIT_SECONDS * 1e6)))
                        return
                    tracker.try_claim(own.stop - 1)  # it ended before its schedule did
                    return
                if not tracker.try_claim(at + count - 1):
                    return
                at += count
                if not final.until:
                    finalizer.register(final)
                final.until = at
                for batch in batches:
                    yield from self._stamped(batch, estimator)

    def _stamped(self, batch: pa.RecordBatch, estimator: Any) -> Iterator[TimestampedValue]:
        micros = batch.column("time").view(pa.int64()).to_pylist()
        for value, at in zip(self._elements(batch), micros, strict=True):
            yield TimestampedValue(value, Timestamp(micros=at))
        estimator.set_watermark(Timestamp(micros=micros[-1]))
