"""Streams of batches that a test writes.

A `ScriptedStream` stands for a streaming DataFrame: the test adds batches, a pipeline reads them,
by the loop and with the log of `headrace.engine.sources.own_feeds`; so a restart meets what it
would meet on Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from headrace.engine.sources.own_feeds import OwnFeeds
from headrace.engine.status import StreamOptions
from headrace.errors import CheckpointError
from headrace.testing.ddl import columns_of_words
from headrace.testing.frames import LocalFrame, LocalSession, Selection, selection, table_of


class ScriptedStream:
    """A streaming DataFrame whose batches a test writes.

    Add batches before the pipeline runs or while it does. The stream outlives the pipeline: a
    second one, started on the same checkpoint, goes on behind the batches that count.

    Args:
        schema: `name string, price double`, or a StructType.
        batches_at_once: how many added batches an epoch may take together; None: all there are.
    """

    isStreaming = True

    def __init__(
        self, schema: spark.StructType | str, *, batches_at_once: int | None = 1,
        session: LocalSession | None = None,
    ) -> None:
        self.schema = schema if isinstance(schema, spark.StructType) else columns_of_words(schema)
        self.sparkSession = session or LocalSession()
        self.batches_at_once = batches_at_once
        self._batches: list[pa.Table] = []
        self._wakers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def add(self, *rows: Any) -> ScriptedStream:
        """Let one more batch come: rows as `LocalSession.createDataFrame` takes them."""
        table = table_of(rows, self.schema)
        with self._lock:
            self._batches.append(table)
            wakers = list(self._wakers)
        for wake in wakers:
            wake()
        return self

    def selectExpr(self, *expressions: str) -> SelectedStream:
        """Choose columns as `ReadFromSpark` does; other expressions need Spark."""
        names, select = selection(expressions)
        columns = spark.StructType([self.schema[name] for name in names])
        return SelectedStream(self, columns, select)

    @property
    def added(self) -> int:
        """How many batches have come so far."""
        return len(self._batches)

    def between(self, start: int, end: int) -> pa.Table:
        """Give the rows of some batches."""
        if end > len(self._batches):
            msg = (
                f"a log says that {end} batches have come, and this stream has {self.added}: it "
                "is another one than the run before has read"
            )
            raise CheckpointError(msg)
        return pa.concat_tables(self._batches[start:end])

    def tell(self, wake: Callable[[], None]) -> None:
        """Call somebody whenever a batch is added."""
        with self._lock:
            self._wakers.append(wake)

    def untell(self, wake: Callable[[], None]) -> None:
        """Call somebody no more."""
        with self._lock:
            self._wakers = [one for one in self._wakers if one is not wake]


@dataclass(frozen=True, slots=True)
class SelectedStream:
    """A stream with some of its columns, and others beside them."""

    stream: ScriptedStream
    schema: spark.StructType
    select: Selection
    isStreaming: bool = True

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def sparkSession(self) -> LocalSession:
        """The session it belongs to."""
        return self.stream.sparkSession


def selected(frame: Any) -> SelectedStream:
    """Give a stream with what is to be read of it."""
    if isinstance(frame, SelectedStream):
        return frame
    return SelectedStream(frame, frame.schema, lambda table: table)


class ScriptedSource:
    """A stream as a source of our own loop; a position says how many batches are read."""

    look_seconds = 0.0

    def __init__(self, source: SelectedStream, wake: Callable[[], None]) -> None:
        self._source = source
        self._wake = wake
        self._limit: int | None = None  # of what was there at the start; None: all that comes
        source.stream.tell(wake)

    def first(self) -> dict[str, int]:
        """Give the position of a new run."""
        return {"batches": 0}

    def advanced(self, start: dict[str, int]) -> dict[str, int]:
        """Give the end of the next batch."""
        stream = self._source.stream
        most = stream.added if self._limit is None else self._limit
        if start["batches"] >= most:
            return start
        at_once = stream.batches_at_once
        return {"batches": most if at_once is None else min(most, start["batches"] + at_once)}

    def fix(self) -> None:
        """Take note of what is there now."""
        self._limit = self._source.stream.added

    def rows(self, start: dict[str, int], end: dict[str, int]) -> LocalFrame:
        """Give the rows of some batches."""
        stream = self._source.stream
        table = self._source.select(stream.between(start["batches"], end["batches"]))
        return LocalFrame(stream.sparkSession, table, self._source.schema)

    def promised(self, start: dict[str, int], end: dict[str, int]) -> int:
        """Count the rows of some batches."""
        return int(self._source.stream.between(start["batches"], end["batches"]).num_rows)

    def counted(self, end: dict[str, int]) -> None:
        """Batches stay: a test may look at them."""

    def close(self) -> None:
        """Wake nobody any more."""
        self._source.stream.untell(self._wake)


def scripted_feeds(options: StreamOptions, wake: Callable[[], None]) -> OwnFeeds:
    """Give what brings the batches of scripted streams."""
    return OwnFeeds(
        lambda name, frame, files, log: ScriptedSource(selected(frame), wake),  # noqa: ARG005 (an opener is given them)
        available_now=options.available_now,
    )
