"""Beam's portable Spark and Flink runners, each with its job server: the same pipelines elsewhere.

Starts `portable_job`, once for a number of cores, hands it pipelines, and reads the rows that they
have written. The parts of a job server are those of `headrace lab install`. A job of theirs starts
its Spark or its Flink itself, so the seconds of a run have that in them.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from apache_beam.internal import cloudpickle_pickler

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.lab.endpoints.names import SinkKind, SourceKind
from headrace.lab.endpoints.rows import RowsInMemory
from headrace.lab.endpoints.sources import events_of
from headrace.lab.job_servers.parts import jars_of
from headrace.lab.systems.job_process import JobProcess
from headrace.lab.systems.left_rows import read_left
from headrace.lab.systems.portable_job import Task, asks_for_the_clock
from headrace.lab.systems.portable_options import options_of
from headrace.lab.systems.system import Outcome, Request, bytes_below, checkpoint_of

_JOB = "headrace.lab.systems.portable_job"
_SINKS = (SinkKind.FILE, SinkKind.VECTOR, SinkKind.NULL)
_NO_SOURCES = (SourceKind.SPARK, SourceKind.LOG)


class PortableSystem:
    """Runs pipelines on a portable runner.

    Args:
        name: one of those that have a job server.
        master: as Spark writes it, `local[2]`: how many cores a request has that names none.
    """

    answers_while_running = True

    def __init__(self, name: str, *, master: str | None = None) -> None:
        self.name = name
        told = re.match(r"local\[(\d+)", master or "")
        self._cores = int(told[1]) if told else os.cpu_count() or 1
        self._job: JobProcess | None = None
        self._job_cores = 0

    @property
    def pid(self) -> int:
        """The process that has started the JVM; this one if none has."""
        return os.getpid() if self._job is None else self._job.pid

    def prepare(self, request: Request) -> None:
        """Refuse what it cannot run; start the job server, if it is not there.

        Raises:
            OptionError: it cannot run this, or is not installed; says why.
            UnsupportedTransformError: it could not end this.
            TransportError: it did not start; says its last words.
        """
        cores = request.shards or self._cores
        options_of(self.name, request, cores)
        if request.sink.kind not in _SINKS:
            msg = f"{self.name} has the sinks {', '.join(kind.value for kind in _SINKS)}"
            raise OptionError(msg)
        if request.source.kind in _NO_SOURCES:
            msg = (
                f"the source {request.source.kind.value} is a DataFrame: the system must be "
                "headrace or spark"
            )
            raise OptionError(msg)
        if request.streaming and asks_for_the_clock(self._task(request, cores)):
            msg = (
                f"{request.workload.full_name} waits for times of the clock, which on Beam's "
                "portable Flink runner do not come to an end; run it in batch there"
            )
            raise UnsupportedTransformError(msg)
        jars_of(self.name)
        if self._job is not None and (not self._job.is_there or self._job_cores != cores):
            self.stop()
        if self._job is None:
            command = [sys.executable, "-m", _JOB, self.name, str(cores)]
            # Workloads are found there by the names that they have here.
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            self._job = JobProcess(self.name, command, {**os.environ, "PYTHONPATH": paths})
            self._job_cores = cores

    def run(self, request: Request) -> Outcome:
        """Run the pipeline to its end.

        Raises:
            TransportError: it has failed; says its last words.
        """
        assert self._job is not None
        task = self._task(request, self._job_cores)
        rows = Path(task.rows)
        rows.mkdir(parents=True)
        path = rows.with_name("task.pickle")
        path.write_bytes(cloudpickle_pickler.dumps(task))
        said = self._job.ran({"task": str(path)})
        kept, count = read_left(rows)
        live = request.sink.kind is SinkKind.VECTOR
        return Outcome(
            system=self.name, engine=f"{said['engine']} ({said['state']})", mode=request.mode,
            events=events_of(request.source, request.generator), seconds=float(said["seconds"]),
            rows=RowsInMemory(tuple(row for _, row in kept)) if task.keeps else None,
            row_count=count,
            # Flink removes the checkpoints of a job that has come to its end.
            checkpoint_bytes=bytes_below(checkpoint_of(request)) or None,
            stamped=tuple((at, (row,)) for at, row in kept) if live else (),
        )

    def _task(self, request: Request, cores: int) -> Task:
        return Task(
            workload=request.workload, settings=request.settings, streaming=request.streaming,
            source=request.source, readers=request.readers, pace=request.pace,
            pull_seconds=request.tuning.bundle_ms / 1_000,
            keeps=request.sink.kind is not SinkKind.NULL,
            rows=str(request.folder.absolute() / "rows"),
            options=options_of(self.name, request, cores),
        )

    def stop(self) -> None:
        """End the job server and all that it has started."""
        job, self._job = self._job, None
        if job is not None:
            job.stop()
