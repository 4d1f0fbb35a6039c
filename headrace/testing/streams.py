"""Streams of batches that a test writes, and what brings them as Structured Streaming would.

A `ScriptedStream` stands for a streaming DataFrame: the test adds batches, a pipeline reads them.
`ScriptedFeeds` keep the log that Spark keeps, in the same folder and form: a batch's offsets are
logged before it is run and its commit after. One without a commit is brought again at the next
start, with the same rows; so a restart meets what it would meet on Spark.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from headrace.engine.host import Arrived
from headrace.engine.queries import ENDING, EndingError
from headrace.engine.status import StreamOptions
from headrace.errors import CheckpointError
from headrace.state.files import Files
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


class ScriptedQuery:
    """Brings the batches of one stream, and keeps their log."""

    def __init__(
        self, name: str, source: SelectedStream, files: Files, log: str, arrived: Arrived, *,
        available_now: bool,
    ) -> None:
        self.name = name
        self.isActive = True
        self._source, self._files, self._log, self._arrived = source, files, log, arrived
        self._available_now = available_now
        if not files.exists(f"{log}/metadata"):
            self._note("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        logged, done = _newest(files, f"{log}/offsets"), _newest(files, f"{log}/commits")
        self._batch = done + 1  # the next one
        self._start = self._end_of(done)
        # Its offsets are logged and its commit is not: it comes again as it was.
        self._planned = self._end_of(logged) if logged > done else None
        self._limit = source.stream.added  # of what is there now
        self._end_if_read()

    def stop(self) -> None:
        """Bring no more."""
        self.isActive = False

    def bring(self) -> bool:
        """Bring the next batch, if there is one."""
        if not self.isActive:
            return False
        stream = self._source.stream
        most = self._limit if self._available_now else stream.added
        end = self._planned
        if end is None:
            if self._start >= most:
                return False
            at_once = stream.batches_at_once
            end = most if at_once is None else min(most, self._start + at_once)
            self._note(f"offsets/{self._batch}", _offsets(end))
        table = self._source.select(stream.between(self._start, end))
        frame = LocalFrame(stream.sparkSession, table, self._source.schema)
        try:
            self._arrived(self.name, frame, self._batch)
        except EndingError:
            self.isActive = False
            raise
        self._note(f"commits/{self._batch}", b"v1\n{}")
        self._batch, self._start, self._planned = self._batch + 1, end, None
        self._end_if_read()
        return True

    def _note(self, name: str, data: bytes) -> None:
        """Write a file of the log; as on Spark, one that is there is another query's."""
        if not self._files.create(f"{self._log}/{name}", data):
            self.isActive = False
            path = self._files.path(f"{self._log}/{name}")
            msg = f"{self.name}: {path} was written by another query; two drivers use this log"
            raise CheckpointError(msg)

    def _end_if_read(self) -> None:
        """End a query that was to read what is there now."""
        if self._available_now and self._planned is None and self._start >= self._limit:
            self.isActive = False

    def _end_of(self, batch: int) -> int:
        if batch < 0:
            return 0
        line = self._files.read(f"{self._log}/offsets/{batch}").decode().splitlines()[-1]
        return int(json.loads(line)["batches"])


class ScriptedFeeds:
    """The scripted streams of one run; see `headrace.engine.host.Feeds`."""

    def __init__(self, options: StreamOptions, wake: Callable[[], None]) -> None:
        self._options = options
        self._wake = wake
        self._queries: dict[str, ScriptedQuery] = {}
        self._sources: list[ScriptedStream] = []
        self._turn = 0
        self.closing = False

    @property
    def started(self) -> Mapping[str, ScriptedQuery]:
        """Those that were started, running or not."""
        return dict(self._queries)

    def listen(self, name: str, frame: Any, files: Files, log: str, arrived: Arrived) -> None:
        """Begin to bring the batches of a stream."""
        source = selected(frame)
        self._queries[name] = ScriptedQuery(
            name, source, files, log, arrived, available_now=self._options.available_now
        )
        self._sources.append(source.stream)
        source.stream.tell(self._wake)

    def is_started(self, name: str) -> bool:
        """Whether a stream is listened to, or was."""
        return name in self._queries

    def is_listening(self, name: str) -> bool:
        """Whether a stream may still bring rows."""
        return name not in self._queries or self._queries[name].isActive

    def bring(self) -> bool:
        """Bring one batch; streams take turns."""
        queries = list(self._queries.values())
        for _ in queries:
            query = queries[self._turn % len(queries)]
            self._turn += 1
            try:
                if query.bring():
                    return True
            except EndingError as error:
                if ENDING not in str(error):
                    raise
                return True  # the run knows why, and raises it
        return False

    def failure(self) -> BaseException | None:
        """Nothing fails here but what the run itself has raised."""
        return None

    def end(self) -> None:
        """Bring no more."""
        for query in self._queries.values():
            query.stop()
        for source in self._sources:
            source.untell(self._wake)

    def abandon(self) -> None:
        """Bring no more."""
        self.end()


def _offsets(end: int) -> bytes:
    """Give a file of offsets in Spark's form: a version, its own settings, where each source is."""
    return f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps({'batches': end})}".encode()


def _newest(files: Files, folder: str) -> int:
    names = (name.rpartition("/")[2] for name in files.names(folder))
    return max((int(name) for name in names if name.isdigit()), default=-1)
