"""PyFlink's DataStreams and Flink SQL, in an environment of its own: what others would pick.

Starts `pyflink_job` with that environment's Python, once, and tells it what to run and where the
data engine is; reads the rows that it has written, with the times at which they left. Knows the
lab's questions alone, and one data engine.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from headrace.errors import OptionError
from headrace.lab import environments
from headrace.lab.data_engine.launch import Feed
from headrace.lab.endpoints.names import SourceKind
from headrace.lab.systems.job_process import JobProcess
from headrace.lab.systems.system import Outcome, Request, bytes_below, checkpoint_of
from headrace.lab.workload import Row

#: How often the job looks for events.
TICKS_PER_SECOND = 50
#: Events that one look brings, at most.
EVENTS_PER_TICK = 10_000
CHECKPOINT_MS = 1_000

#: What a system of each name is told of how Python runs, and of what answers: Flink's DataStreams
#: with Python functions, or its SQL, where Python brings events and writes rows.
MODES = {"pyflink": "process", "pyflink-thread": "thread", "flink-sql": "process"}
APIS = {"flink-sql": "sql"}

_JOB = Path(__file__).with_name("pyflink_job.py")


class PyFlinkSystem:
    """Runs the lab's question on PyFlink.

    Args:
        name: one of `MODES`.
        cores: tasks that count side by side.
        python: the interpreter of an environment with PyFlink; the lab's own if not given.
    """

    answers_while_running = True

    def __init__(self, name: str, *, cores: int = 2, python: Path | None = None) -> None:
        self.name = name
        self._mode = MODES[name]
        self._cores = cores
        self._python = python or environments.python_of("pyflink")
        self._job: JobProcess | None = None

    @property
    def pid(self) -> int:
        """The process that has started the JVM; this one if none has."""
        return os.getpid() if self._job is None else self._job.pid

    def prepare(self, request: Request) -> None:
        """Refuse what it cannot answer; start the process and its JVM, if they are not there.

        Raises:
            OptionError: it cannot answer; says why.
            TransportError: it did not start; says its last words.
        """
        if request.workload.suite != "probe":
            msg = f"PyFlink is asked the lab's own questions only, not {request.workload.full_name}"
            raise OptionError(msg)
        if request.source.kind is not SourceKind.ENGINE:
            msg = "PyFlink reads data engines only; use the source engine"
            raise OptionError(msg)
        if len(Feed.read(request.source.path).addresses) != 1:
            msg = "PyFlink reads one data engine; set partitions = 1"
            raise OptionError(msg)
        if self._job is not None and not self._job.is_there:
            self.stop()
        if self._job is None:
            self._job = JobProcess(
                "PyFlink", [str(self._python), str(_JOB)], environments.surroundings(self._python)
            )

    def run(self, request: Request) -> Outcome:
        """Run the job to the end of its input.

        Raises:
            TransportError: it has failed; says its last words.
        """
        rows = request.folder / "rows.jsonl"
        rows.touch()
        (address,) = Feed.read(request.source.path).addresses
        settings, tuning = request.settings, request.tuning
        schedule = settings.read_schedule()
        task = {
            "question": request.workload.name, "address": address, "rows": str(rows),
            "window_ms": settings.window_ms, "panes": settings.panes,
            "one_in": settings.one_in, "every": settings.every,
            "mode": self._mode, "api": APIS.get(self.name, "datastream"),
            "shards": request.shards or self._cores,
            "bundle_ms": tuning.bundle_ms, "bundle_events": tuning.bundle_events,
            "per_tick": EVENTS_PER_TICK,
            "ticks_per_second": TICKS_PER_SECOND, "ended": str(request.folder / "ended"),
            "savepoint": (request.folder / "savepoint").as_uri(),
            "checkpoint_ms": CHECKPOINT_MS, "checkpoint": checkpoint_of(request).as_uri(),
        }
        start = time.perf_counter()
        assert self._job is not None
        said = self._job.ran(task)
        seconds = time.perf_counter() - start
        stamped = read_rows(rows)
        return Outcome(
            system=self.name, engine=f"{said['engine']}, {task['shards']} shards",
            mode=request.mode, events=schedule.events, seconds=seconds, rows=None,
            row_count=len(stamped), checkpoint_bytes=bytes_below(checkpoint_of(request)),
            stamped=tuple((at, (row,)) for at, row in stamped),
        )

    def stop(self) -> None:
        """End the process."""
        job, self._job = self._job, None
        if job is not None:
            job.stop()


def read_rows(path: Path) -> list[tuple[float, Row]]:
    """Read the rows that a job has written, each with the time at which it left.

    A job that was restarted writes rows again: what a later attempt has written stands in for what
    an earlier one has written of the same window and key, event, or count of a key. That is what
    the first two columns say, in every question. What one attempt writes twice stays.
    """
    found: dict[Row, tuple[int, list[tuple[float, Row]]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        at, attempt, *values = json.loads(line)
        row = tuple(values)
        before, rows = found.get(row[:2], (attempt, []))
        if attempt > before:
            rows = []
        found[row[:2]] = attempt, [*rows, (float(at), row)]
    return [each for _, rows in found.values() for each in rows]
