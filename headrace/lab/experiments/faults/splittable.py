"""The same files, read by unbounded splittable DoFns: what was read is kept in our state alone.

A reader takes one file per epoch and puts the rest off, so that the run has as many epochs as with
streaming DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

#: How many readers share the events: residuals lie on several shards, and move with their number.
READERS = 2
#: What is put off by no time at all is read in the same epoch.
PAUSE_MICROS = 100_000

#: The files of one reader, in order.
Files = tuple[str, ...]


class ReadFiles(beam.PTransform):  # type: ignore[misc]
    """Read rows of two columns, with their times.

    Args:
        folder: where the Parquet files are.
        columns: the two.
        disorder: seconds that rows may come out of order.
        readers: how many take the files in turn.
    """

    def __init__(
        self, folder: Path, columns: tuple[str, str], *, disorder: int, readers: int
    ) -> None:
        super().__init__()
        self._folder, self._columns = folder, columns
        self._disorder, self._readers = disorder, readers

    def expand(self, pbegin: Any) -> Any:
        """Deal the files out and read them."""
        paths = sorted(str(path) for path in self._folder.glob("*.parquet"))
        dealt = [tuple(paths[reader :: self._readers]) for reader in range(self._readers)]
        return (
            pbegin
            | beam.Impulse()
            | "Deal" >> beam.FlatMap(lambda _: dealt)
            | "Read" >> beam.ParDo(_Read(self._columns, self._disorder * 1_000_000))
        )


class _Positions(beam.transforms.core.RestrictionProvider):  # type: ignore[misc]
    """The restriction of a reader: its files, numbered from 0."""

    def initial_restriction(self, element: Files) -> OffsetRange:
        return OffsetRange(0, len(element))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Files, restriction: OffsetRange) -> int:
        del element
        return restriction.size()  # type: ignore[no-any-return]


class _Read(beam.DoFn):  # type: ignore[misc]
    """Gives the rows of one file, then asks to be called again."""

    def __init__(self, columns: tuple[str, str], disorder: int) -> None:
        self._columns, self._disorder = columns, disorder

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: Files,
        tracker: Any = beam.DoFn.RestrictionParam(_Positions()),  # noqa: B008 (Beam's way)
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(  # noqa: B008
            ManualWatermarkEstimator.default_provider()  # noqa: B008
        ),
    ) -> Iterator[Any]:
        """Read the next file; no row that follows is older than the newest less the disorder."""
        own = tracker.current_restriction()
        position = own.start
        while tracker.try_claim(position):
            newest = 0
            table = pq.read_table(element[position], columns=["at", *self._columns])
            at, one, two = (column.to_pylist() for column in (
                table.column(0).cast("int64"), table.column(1), table.column(2)
            ))
            for micros, *pair in zip(at, one, two, strict=True):
                newest = max(newest, micros)
                yield TimestampedValue(tuple(pair), Timestamp(micros=micros))
            position += 1
            if position < own.stop:
                mark = Timestamp(micros=newest - self._disorder)
                known = estimator.current_watermark()
                if known is None or mark > known:
                    estimator.set_watermark(mark)
                tracker.defer_remainder(Duration(micros=PAUSE_MICROS))
                return
