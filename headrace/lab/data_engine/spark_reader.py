"""Data engines as a streaming DataFrame: the same way in for headrace and for Spark alone.

A Python data source of Spark's that yields Arrow. An offset says how far each partition is; a batch
is planned by asking the engines, read by a task per partition, and acknowledged when Spark has
logged its commit. After a failure Spark asks for the same offsets, which the engines still hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.errors import TransportError
from headrace.lab.data_engine.aligned import aligned
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed

#: The name under which Spark knows the source.
FORMAT = "headrace_data_engine"
#: Events of one batch, unless told otherwise.
EVENTS_PER_BATCH = 1_000_000
#: Events in one answer of an engine: large enough for columns, small enough to start early.
EVENTS_PER_PULL = 65_536


def engine_stream(
    spark: Any, feed: Feed, schema: pa.Schema, *, per_batch: int = EVENTS_PER_BATCH
) -> Any:
    """Give a streaming DataFrame of the events of some data engines.

    Args:
        spark: a session.
        feed: where the engines are.
        schema: of their events.
        per_batch: events of one batch, at most.
    """
    with _active(spark):
        spark.dataSource.register(DataEngineSource)
        return (
            spark.readStream.format(FORMAT)
            .schema(from_arrow_schema(schema))
            .options(feed=feed.text(), per_batch=str(per_batch))
            .load()
        )


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Let a session be the thread's own: Spark looks for sources there, whoever asks."""
    before = spark.getActiveSession()
    sessions = spark._jvm.SparkSession  # noqa: SLF001 (as PySpark's own createDataFrame does)
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before is not None:
            sessions.setActiveSession(before._jsparkSession)  # noqa: SLF001


class DataEngineSource(DataSource):  # type: ignore[misc]
    """What Spark asks for the stream."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Make the reader."""
        del schema
        return EngineReader(self.options)


class EnginePart(InputPartition):  # type: ignore[misc]
    """Some events of one partition."""

    def __init__(self, address: str, start: int, end: int) -> None:
        super().__init__(address)
        self.address, self.start, self.end = address, start, end


class EngineReader(DataSourceStreamReader):  # type: ignore[misc]
    """Plans batches on the driver, and reads them in tasks."""

    def __init__(self, options: Any) -> None:
        self._feed = Feed.read(options["feed"])
        self._most = int(options["per_batch"])
        self._clients = [EngineClient(address) for address in self._feed.addresses]
        # A query that joins a stream with itself has two readers of it.
        self._name = uuid.uuid4().hex

    def initialOffset(self) -> dict[str, int]:
        """Begin at the first event of every partition."""
        return {str(partition): 0 for partition in range(len(self._clients))}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """Offer what all partitions have, up to one event number."""
        del limit  # Spark has none to give: `getDefaultReadLimit` says so
        statuses = [client.offer(self._name) for client in self._clients]
        begin = self._offsets(self.initialOffset() if start is None else start)
        ends = aligned(self._feed, statuses, begin, self._most)
        return {str(partition): end for partition, end in enumerate(ends)}

    def _offsets(self, told: dict[str, int]) -> list[int]:
        return [told[str(partition)] for partition in range(len(self._clients))]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Give a task to every partition that has events."""
        spans = zip(self._feed.addresses, self._offsets(start), self._offsets(end), strict=True)
        return [EnginePart(address, low, high) for address, low, high in spans if low < high]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Take the events of one partition, in a task."""
        at = partition.start
        with EngineClient(partition.address) as client:
            while at < partition.end:
                most = min(EVENTS_PER_PULL, partition.end - at)
                batches, _ = client.pull(at, most, wait=1.0)
                if not batches:
                    msg = f"{partition.address} offered {partition.end:,} events, gave {at:,}"
                    raise TransportError(msg)
                for batch in batches:
                    at += batch.num_rows
                    yield batch

    def commit(self, end: dict[str, int]) -> None:
        """Let the engines forget what is committed."""
        for client, until in zip(self._clients, self._offsets(end), strict=True):
            client.acknowledge(until, self._name)

    def stop(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()
