"""headrace itself, by its front door: the pipeline as any user would run it.

Takes the time from handing the pipeline to the runner until it has ended and its last rows are
written. The state of a streaming run is checkpointed below the request's folder, and a request on
the folder of an interrupted run goes on with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from headrace import __version__
from headrace.errors import OptionError
from headrace.io import BoundedOutOfOrderness, ReadFromSpark, WriteToSpark
from headrace.lab.data_engine.aligned import await_taken
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.spark_reader import engine_stream
from headrace.lab.endpoints.event_log import (
    disorder_seconds as disorder_of_log,
)
from headrace.lab.endpoints.event_log import (
    files_at_once,
    log_frame,
    write_log,
)
from headrace.lab.endpoints.frame_sinks import FrameSink, schema_of
from headrace.lab.endpoints.line_log import (
    check_lines,
    disorder_seconds,
    lines_frame,
    write_lines,
)
from headrace.lab.endpoints.names import SinkKind, SourceKind
from headrace.lab.endpoints.sources import SparkLines, beam_source, events_of
from headrace.lab.record.stages import EpochStages, Part
from headrace.lab.systems.system import (
    Glance,
    Outcome,
    Request,
    Tuning,
    bytes_below,
    checkpoint_of,
    resumes,
)
from headrace.runner import SparkRunner, StreamResult, start_session

#: Lines that an epoch of the source `spark` reads, when the files are ours.
LINES_PER_EPOCH = 100_000
_NAMESPACE = "headrace.lab"


class _Count(beam.DoFn):  # type: ignore[misc]
    """Counts rows, a bundle at a time, and drops them."""

    def __init__(self) -> None:
        self._counter = Metrics.counter(_NAMESPACE, "rows")
        self._count = 0

    def start_bundle(self) -> None:
        self._count = 0

    def process(self, _row: Any) -> None:
        self._count += 1

    def finish_bundle(self) -> None:
        self._counter.inc(self._count)


class HeadraceSystem:
    """Runs the pipeline on headrace.

    Args:
        session: a Spark session to use; one is started, and stopped again, if not given.
        master: where a session of our own runs, as in local[2]; all cores here if not given.
    """

    name = "headrace"
    answers_while_running = True

    def __init__(self, session: Any | None = None, *, master: str | None = None) -> None:
        self._session = session
        self._master = master
        self._owned = False
        self._warm = False

    def prepare(self, request: Request) -> None:
        """Start the session, and let its Python workers import Beam.

        Before a run that goes on they do not: who starts a driver again has to wait for it.
        """
        if self._session is None:
            self._session = start_session(self._master)
            self._owned = True
        if not self._warm and not resumes(request):
            flags = ["--progress=off", *_shards(request)]
            with beam.Pipeline(SparkRunner(self._session), PipelineOptions(flags)) as pipeline:
                pipeline | beam.Create(range(100)) | beam.Reshuffle()
            self._warm = True

    def run(self, request: Request) -> Outcome:
        """Run the pipeline to its end."""
        generator = request.generator
        checkpoint, resumed = checkpoint_of(request), resumes(request)
        sink = FrameSink(request.sink, request.folder / "rows")
        seconds, result = 0.0, None
        for more_flags, ending in _turns(request):
            flags = [*_flags(request, checkpoint), *more_flags]
            pipeline = beam.Pipeline(SparkRunner(self._session), PipelineOptions(flags))
            events = pipeline | "Events" >> self._source(request)
            rows = events | "Query" >> _build(request)(request.settings)
            rows | "Sink" >> _sink_step(request, sink)
            start = time.perf_counter()
            result = pipeline.run()
            with request.watch(_looking(result, checkpoint, _id_of(pipeline, events))):
                ending(result)
            seconds += time.perf_counter() - start
        assert result is not None
        return Outcome(
            system=self.name, engine=self._engine(result), mode=request.mode,
            events=events_of(request.source, generator), seconds=seconds, rows=sink.rows(),
            row_count=_counted(result) if request.sink.kind is SinkKind.NULL else sink.count,
            checkpoint_bytes=bytes_below(checkpoint) if request.streaming else None,
            resumed=resumed, stamped=sink.stamped(), tables=sink.tables(),
            epochs=_epochs(result),
        )

    def _source(self, request: Request) -> Any:
        generator = request.generator
        if request.source.kind is SourceKind.ENGINE:
            frame = engine_stream(
                self._session, Feed.read(request.source.path), generator.schema,
                per_batch=request.tuning.per_batch,
            )
            if request.workload.by_columns is not None:
                frame = frame.selectExpr("time", *request.workload.by_columns.columns)
                return ReadFromSpark(frame, columns=frame.columns[1:], timestamp="time")
            columns = [name for name in frame.columns if name not in ("time", "nanos")]
            return ReadFromSpark(frame, columns=columns, timestamp="time")
        if request.source.kind is SourceKind.LOG:
            return self._log(request)
        if request.source.kind is not SourceKind.SPARK:
            return beam_source(
                request.source, generator,
                streaming=request.streaming, readers=request.readers, pace=request.pace,
            )
        folder = Path(request.source.path or request.folder / "lines")
        if request.source.path:
            check_lines(folder)
        else:
            write_lines(generator, folder, per_file=LINES_PER_EPOCH)
        frame = lines_frame(self._session, folder, streaming=request.streaming)
        return SparkLines(frame, generator, disorder_seconds(folder))

    def _log(self, request: Request) -> Any:
        by = request.workload.by_columns
        assert by is not None  # `_build` has said so
        folder = Path(request.source.path or request.folder / "log")
        write_log(request.generator, folder)
        frame = log_frame(
            self._session, folder, streaming=request.streaming, closing=False,
            files_at_once=files_at_once(folder, request.tuning.per_batch),
        ).selectExpr("time", *by.columns)
        columns = [name for name in frame.columns if name != "time"]
        return ReadFromSpark(
            frame, columns=columns, timestamp="time",
            watermark=BoundedOutOfOrderness(disorder_of_log(folder)),
        )

    def _engine(self, result: Any) -> str:
        assert self._session is not None
        master = self._session.conf.get("spark.master")
        return (
            f"headrace {__version__} {type(result).__name__} ({result.state}), "
            f"{result.plan.shards} shards, Spark {self._session.version} on {master}"
        )

    def stop(self) -> None:
        """Stop the session if it is ours."""
        if self._owned and self._session is not None:
            self._session.stop()
            self._session, self._owned, self._warm = None, False, False


def _build(request: Request) -> Callable[[Any], Any]:
    """Give what builds the question: for elements, or for rows of columns."""
    by, kind = request.workload.by_columns, request.source.kind
    if kind is not SourceKind.LOG and not (kind is SourceKind.ENGINE and by is not None):
        return request.workload.build
    if by is None:
        msg = (
            f"{request.workload.full_name} is asked of events, not of the columns of their log: "
            "use another source"
        )
        raise OptionError(msg)
    return by.build


def _shards(request: Request) -> list[str]:
    return [] if request.shards is None else [f"--shards={request.shards}"]


def _flags(request: Request, checkpoint: Path) -> list[str]:
    name = f"{request.workload.suite}-{request.workload.name}"
    flags = ["--progress=off", f"--job_name={name}", *_shards(request)]
    if request.streaming:
        flags += ["--streaming", f"--checkpoint={checkpoint}"]
    if request.tuning.trigger_ms:
        flags.append(f"--trigger_interval={request.tuning.trigger_ms / 1_000}")
    if request.tuning.who_asks != Tuning().who_asks:
        flags.append(f"--who_asks={request.tuning.who_asks}")
    return [*flags, *request.flags]


def _turns(request: Request) -> list[tuple[list[str], Callable[[Any], Any]]]:
    """How often the pipeline is started, with which flags, and what ends it.

    A streaming DataFrame never says that it has ended. So the run is told to read what is there,
    and then to end all sources, which closes what is still open.
    """
    if request.streaming and request.source.kind in (SourceKind.SPARK, SourceKind.LOG):
        return [(["--drain_available"], lambda result: result.wait_until_finish())]
    if request.source.kind is SourceKind.ENGINE:
        return [([], partial(_drain_engines, Feed.read(request.source.path)))]
    return [([], lambda result: result.wait_until_finish())]


def _drain_engines(feed: Feed, result: Any) -> None:
    await_taken(feed, lambda: not PipelineState.is_terminal(result.state))
    result.drain()


def _sink_step(request: Request, sink: FrameSink) -> Any:
    if request.sink.kind is SinkKind.NULL:
        return beam.ParDo(_Count())  # nothing leaves the workers
    schema = schema_of(request.workload.columns)
    if sink.path is None:
        return WriteToSpark(function=sink.take, schema=schema)
    ours = request.sink.kind is SinkKind.FILE
    mode = "overwrite" if ours and not request.streaming else "error"
    return WriteToSpark(sink.path, schema=schema, mode=mode)


def _counted(result: Any) -> int:
    found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
    return sum(counter.result for counter in found)


def _id_of(pipeline: Any, collection: Any) -> str:
    """Give the name by which monitoring data speak of a collection."""
    _, context = pipeline.to_runner_api(return_context=True)
    return str(context.pcollections.get_id(collection))


def _looking(result: Any, checkpoint: Path, events_id: str) -> Callable[[], Glance]:
    def look() -> Glance:
        if not isinstance(result, StreamResult):
            return Glance()
        status = result.stream_status
        marks = [out for _, out in status.watermarks.values()]
        return Glance(
            events=_elements(status.monitoring_infos, events_id),
            watermark=min(marks, default=None),
            epoch=status.epoch, epoch_seconds=status.epoch_seconds,
            state_bytes=status.state_bytes, checkpoint_bytes=bytes_below(checkpoint),
            steps=tuple(result.steps()),
        )

    return look


def _epochs(result: Any) -> tuple[EpochStages, ...]:
    """Tell of the epochs of a stream; what of a job is neither computing nor state is Spark's."""
    if not isinstance(result, StreamResult):
        return ()
    return tuple(
        EpochStages(
            began=each.began,
            parts=(
                Part((
                    ("compute", each.computing), ("commit", each.sealing),
                    ("shuffle", each.tasks - each.computing - each.sealing),
                )),
                Part((("commit", each.sinks + each.commit),)),
            ),
        )
        for each in result.stream_status.recent
    )


def _elements(infos_by_stage: Mapping[str, Iterable[Any]], collection: str) -> int:
    """How many elements a collection has had; stages that share it all count the same ones."""
    counts = [
        monitoring_infos.extract_counter_value(info)
        for infos in infos_by_stage.values()
        for info in infos
        if info.urn == monitoring_infos.ELEMENT_COUNT_URN
        and info.labels["PCOLLECTION"] == collection
    ]
    return max(counts, default=0)
