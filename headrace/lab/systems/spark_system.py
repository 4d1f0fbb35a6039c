"""Spark alone: the same question in Spark's own DataFrames, what a user would pick instead.

Takes the time from starting the query until it has read the whole log and written its last rows.
State is checkpointed below the request's folder. In streaming, a few events far in the future come
last if the query has a watermark: Spark closes a window only when something newer has arrived.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.catalog import native_of
from headrace.lab.data_engine.aligned import await_taken
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.spark_reader import engine_stream
from headrace.lab.endpoints.event_log import (
    files_at_once,
    log_frame,
    write_closing,
    write_log,
)
from headrace.lab.endpoints.frame_sinks import FrameSink
from headrace.lab.endpoints.names import SourceKind
from headrace.lab.record.stages import EpochStages, Part
from headrace.lab.systems.system import (
    Glance,
    Outcome,
    Request,
    bytes_below,
    checkpoint_of,
    resumes,
)
from headrace.lab.workload import Refusal, find
from headrace.runner import start_session

#: What a Spark engineer sets for queries with state: RocksDB, which keeps changes and not copies,
#: and which `transformWithState` asks for.
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The events of all batches are added up from here; Spark forgets after a hundred otherwise.
    "spark.sql.streaming.numRecentProgressUpdates": "1000000",
}
#: What a batch of Spark's does before its job.
_BEFORE_THE_JOB = ("latestOffset", "getBatch", "queryPlanning", "walCommit")
#: How long a look at a query that has no end of its own may be apart.
_LOOK_SECONDS = 0.1


class SparkSystem:
    """Runs the workload's native version.

    Args:
        session: a Spark session to use; one is started, and stopped again, if not given.
        master: where a session of our own runs, as in local[2]; all cores here if not given.
    """

    name = "spark"
    answers_while_running = True

    def __init__(self, session: Any | None = None, *, master: str | None = None) -> None:
        self._session = session
        self._master = master
        self._owned = False

    def prepare(self, request: Request) -> None:
        """Refuse what Spark cannot express; else start the session."""
        _native(request)
        known = (SourceKind.GENERATOR, SourceKind.SPARK, SourceKind.LOG, SourceKind.ENGINE)
        if request.source.kind not in known:
            msg = (
                f"Spark's own queries read rows: the source {request.source.kind.value} gives "
                "lines or nothing; use generator, log, spark or engine"
            )
            raise OptionError(msg)
        if self._session is None:
            self._session = start_session(self._master)
            self._owned = True

    def run(self, request: Request) -> Outcome:
        """Run the query to the end of its input."""
        assert self._session is not None
        session = self._session.newSession()
        shards = request.shards or session.sparkContext.defaultParallelism
        for name, value in {**_SETTINGS, "spark.sql.shuffle.partitions": str(shards)}.items():
            session.conf.set(name, value)
        generator = request.generator
        sink = FrameSink(request.sink, request.folder / "rows")
        events = self._events(session, request)
        answer = _native(request)(events, request.settings)
        checkpoint, resumed = checkpoint_of(request), resumes(request)
        if request.streaming:
            seconds, epochs = _stream(answer, request, sink, checkpoint)
        else:
            start = time.perf_counter()
            with request.watch(Glance):
                sink.take(answer, 0)
            seconds, epochs = time.perf_counter() - start, ()
        kind = "Structured Streaming" if answer.isStreaming else "DataFrame"
        master = session.sparkContext.master
        return Outcome(
            system=self.name, engine=f"Spark {session.version} {kind} on {master}, {shards} shards",
            mode=request.mode, events=generator.events, seconds=seconds, rows=sink.rows(),
            row_count=sink.count, resumed=resumed, stamped=sink.stamped(), tables=sink.tables(),
            checkpoint_bytes=bytes_below(checkpoint) if request.streaming else None, epochs=epochs,
        )

    def _events(self, session: Any, request: Request) -> Any:
        generator = request.generator
        if request.source.kind is SourceKind.ENGINE:
            return engine_stream(
                session, Feed.read(request.source.path), generator.schema,
                per_batch=request.tuning.per_batch,
            )
        if _paced(request):
            return _paced_events(session, generator, request.folder / "log")
        folder = _log_of(request)
        if request.source.kind is SourceKind.LOG:
            write_log(generator, folder)
            return log_frame(
                session, folder, streaming=request.streaming,
                files_at_once=files_at_once(folder, request.tuning.per_batch),
                closing=not request.workload.stateless,
            )
        if not request.source.path:
            write_log(generator, folder)
        return log_frame(session, folder, streaming=request.streaming)

    def stop(self) -> None:
        """Stop the session if it is ours."""
        if self._owned and self._session is not None:
            self._session.stop()
            self._session, self._owned = None, False


def _log_of(request: Request) -> Path:
    return Path(request.source.path or request.folder / "log")


def _native(request: Request) -> Callable[..., Any]:
    by = request.workload.by_columns
    by_columns = request.source.kind in (SourceKind.LOG, SourceKind.ENGINE)
    if by_columns and by is not None and by.native:
        return find(by.native)
    native = native_of(request.workload)
    if isinstance(native, Refusal):
        msg = f"Spark's own DataFrames cannot answer {request.workload.full_name}: {native.reason}"
        raise OptionError(msg)
    return native


def _waits(answer: Any) -> bool:
    """Whether a query has a watermark, and so holds rows back until something newer arrives.

    One without answers event by event, and would answer for closing events too.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        answer.explain("extended")
    return "EventTimeWatermark" in printed.getvalue()


def _paced(request: Request) -> bool:
    return request.streaming and request.pace


def _paced_events(session: Any, generator: Any, folder: Path) -> Any:
    """Events when they are due, and behind them whatever will be written to close the stream."""
    from headrace.lab.data.spark_source import stream

    (folder / "closing").mkdir(parents=True, exist_ok=True)
    events = stream(session, generator, pace=True)
    closing = session.readStream.schema(events.schema).parquet(str(folder / "closing"))
    return events.unionByName(closing)


def _close(request: Request) -> None:
    assert isinstance(request.workload.native, str)
    module = request.workload.native.partition(":")[0]
    write_closing(request.generator, _log_of(request), module)


def _stream(
    answer: Any, request: Request, sink: FrameSink, checkpoint: Path
) -> tuple[float, tuple[EpochStages, ...]]:
    """Run a streaming query until it has read everything; give the seconds, and its batches."""
    writer = answer.writeStream.foreachBatch(sink.take).outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint))
    own = not request.source.path or request.source.kind is SourceKind.LOG
    closes = own and _waits(answer)
    sent = request.source.kind is SourceKind.ENGINE
    if not _paced(request) and not sent:
        if closes:
            _close(request)
        writer = writer.trigger(availableNow=True)
    elif request.tuning.trigger_ms:
        writer = writer.trigger(processingTime=f"{request.tuning.trigger_ms} milliseconds")
    start = time.perf_counter()
    query = writer.start()
    try:
        with request.watch(lambda: _glance(query, checkpoint)):
            if sent:
                await_taken(Feed.read(request.source.path), lambda: query.isActive)
                query.processAllAvailable()
            elif _paced(request):
                while _read(query) < request.generator.events and query.isActive:
                    time.sleep(_LOOK_SECONDS)
                if closes:
                    _close(request)
                query.processAllAvailable()
            else:
                query.awaitTermination()
        return time.perf_counter() - start, _epochs(query)
    finally:
        query.stop()


def _epochs(query: Any) -> tuple[EpochStages, ...]:
    """Tell of a query's batches; what a job did is one part, its state and its sink in it."""
    found = []
    for progress in query.recentProgress:
        took = dict(progress.durationMs)
        inside = took.get("addBatch", 0) / 1_000
        before = sum(took.get(name, 0) for name in _BEFORE_THE_JOB) / 1_000
        found.append(EpochStages(
            began=(_micros(progress.timestamp) or 0) / 1e6,
            parts=(
                Part((("shuffle", before),)), Part((("compute", inside),)),
                Part((("commit", took.get("commitOffsets", 0) / 1_000),)),
            ),
        ))
    return tuple(found)


def _read(query: Any) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def _glance(query: Any, checkpoint: Path) -> Glance:
    last = query.lastProgress
    if last is None:
        return Glance()
    return Glance(
        events=_read(query), watermark=_micros(last.eventTime.get("watermark")),
        epoch=last.batchId, epoch_seconds=last.batchDuration / 1000,
        state_bytes=sum(operator.memoryUsedBytes for operator in last.stateOperators),
        checkpoint_bytes=bytes_below(checkpoint),
    )


def _micros(moment: str | None) -> int | None:
    """Read a time as Spark writes it, such as 2020-09-13T12:26:40.000Z."""
    if moment is None:
        return None
    since = datetime.fromisoformat(moment) - datetime.fromtimestamp(0, timezone.utc)
    return since // timedelta(microseconds=1)
