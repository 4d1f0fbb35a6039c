"""A generator's events as a streaming DataFrame, for pipelines and for Spark alone.

A Python data source of Spark's: an offset is an event number, a batch a range of them, cut into one
partition per core. Any range can be made again, so Spark's own log of offsets is all that a restart
needs.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.lab.data.generator import Generator

#: The name under which Spark knows the source.
FORMAT = "headrace_events"
#: Events in one Arrow batch.
BATCH_EVENTS = 8_192
#: Events of a batch of the stream, unless told otherwise.
ROWS_PER_BATCH = 200_000


def stream(
    spark: Any,
    generator: Generator,
    *,
    rows_per_batch: int = ROWS_PER_BATCH,
    partitions: int = 2,
    pace: bool = False,
) -> Any:
    """Give a streaming DataFrame of a generator's events, with the columns of its schema.

    Args:
        spark: a session.
        generator: makes the events.
        rows_per_batch: events of one batch, at most.
        partitions: tasks of one batch.
        pace: offer an event when it is due after the start of the run, not before.
    """
    spark.dataSource.register(EventSource)
    # Options are texts. The pickle is our own, made and read by one user's processes.
    encoded = base64.b64encode(pickle.dumps(generator)).decode()
    return (
        spark.readStream.format(FORMAT)
        .schema(from_arrow_schema(generator.schema))
        .options(
            generator=encoded, rows_per_batch=str(rows_per_batch), partitions=str(partitions),
            pace=str(pace),
        )
        .load()
    )


class EventSource(DataSource):  # type: ignore[misc]
    """What Spark asks for the stream."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Make the reader."""
        del schema
        return _Reader(self.options)


class _Range(InputPartition):  # type: ignore[misc]
    def __init__(self, start: int, end: int) -> None:
        super().__init__(start)
        self.start, self.end = start, end


class _Reader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: Any) -> None:
        self._generator: Generator = pickle.loads(base64.b64decode(options["generator"]))
        self._rows = int(options["rows_per_batch"])
        self._partitions = int(options["partitions"])
        self._pace = options["pace"] == "True"
        self._started: int | None = None
        self._offered = 0

    def initialOffset(self) -> dict[str, int]:
        return {"number": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """Offer one batch more than was offered last, if it is due."""
        del limit
        if start is not None:
            self._offered = max(self._offered, start["number"])
        end = min(self._offered + self._rows, self._generator.events)
        if self._pace:
            end = self._due_until(self._offered, end)
        self._offered = end
        return {"number": end}

    def _due_until(self, low: int, high: int) -> int:
        now = time.time_ns() // 1_000
        if self._started is None:
            self._started = now - self._generator.due(low)
        while low < high:  # how many events are due by now
            middle = (low + high + 1) // 2
            if self._generator.due(middle - 1) <= now - self._started:
                low = middle
            else:
                high = middle - 1
        return low

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["number"], end["number"]
        share = max(1, -(-(last - first) // self._partitions))
        return [_Range(s, min(s + share, last)) for s in range(first, last, share)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for start in range(partition.start, partition.end, BATCH_EVENTS):
            yield self._generator.batch(start, min(BATCH_EVENTS, partition.end - start))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept that could be dropped."""

    def stop(self) -> None:
        """Nothing is open."""
