"""PyFlink's DataStream API, in an environment of its own: what a user of Python streams would pick.

Starts `pyflink_job` with that environment's Python and tells it where the data engine is; reads the
rows that it has written, with the times at which they left. Knows the lab's question alone, and one
data engine.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, TransportError
from headrace.lab import environments
from headrace.lab.data_engine.launch import Feed
from headrace.lab.endpoints.names import SourceKind
from headrace.lab.systems.system import Outcome, Request, bytes_below, checkpoint_of
from headrace.lab.workload import Row

#: How often the job looks for events.
TICKS_PER_SECOND = 50
#: Events that one look brings, at most.
EVENTS_PER_TICK = 50_000
#: How long elements may be held to cross between Java and Python together; PyFlink's own 1,000 ms
#: would be the latency, and its rate is no higher by it.
BUNDLE_MS = 100
CHECKPOINT_MS = 1_000

#: What a system of each name is told of how Python runs.
MODES = {"pyflink": "process", "pyflink-thread": "thread"}

_JOB = Path(__file__).with_name("pyflink_job.py")
_PATIENCE_SECONDS = 60.0
_CAUSE = "Caused by: "


class PyFlinkSystem:
    """Runs the lab's question on PyFlink.

    Args:
        name: one of `MODES`.
        cores: tasks that count side by side.
        python: the interpreter of an environment with PyFlink; the lab's own if not given.
    """

    def __init__(self, name: str, *, cores: int = 2, python: Path | None = None) -> None:
        self.name = name
        self._mode = MODES[name]
        self._cores = cores
        self._python = python or environments.python_of("pyflink")
        self._job: subprocess.Popen[str] | None = None

    def prepare(self, request: Request) -> None:
        """Refuse what it cannot answer; each run starts a JVM of its own."""
        self.stop()
        if request.workload.full_name != "probe count":
            msg = f"PyFlink is asked the lab's own question only, not {request.workload.full_name}"
            raise OptionError(msg)
        if request.source.kind is not SourceKind.ENGINE:
            msg = "PyFlink reads data engines only; use the source engine"
            raise OptionError(msg)
        if len(Feed.read(request.source.path).addresses) != 1:
            msg = "PyFlink reads one data engine; set partitions = 1"
            raise OptionError(msg)

    def run(self, request: Request) -> Outcome:
        """Run the job to the end of its input.

        Raises:
            TransportError: it has failed; says its last words.
        """
        rows = request.folder / "rows.jsonl"
        rows.touch()
        (address,) = Feed.read(request.source.path).addresses
        settings = request.settings
        schedule = settings.read_schedule()
        task = {
            "address": address, "window_ms": settings.window_ms, "rows": str(rows),
            "mode": self._mode, "shards": request.shards or self._cores,
            "bundle_ms": BUNDLE_MS, "per_tick": EVENTS_PER_TICK,
            "ticks_per_second": TICKS_PER_SECOND, "ended": str(request.folder / "ended"),
            "savepoint": (request.folder / "savepoint").as_uri(),
            "checkpoint_ms": CHECKPOINT_MS, "checkpoint": checkpoint_of(request).as_uri(),
        }
        start = time.perf_counter()
        said = self._ran(task, request.folder)
        seconds = time.perf_counter() - start
        stamped = read_rows(rows)
        return Outcome(
            system=self.name, engine=f"{said['engine']}, {task['shards']} shards",
            mode=request.mode, events=schedule.events, seconds=seconds, rows=None,
            row_count=len(stamped), checkpoint_bytes=bytes_below(checkpoint_of(request)),
            stamped=tuple((at, (row,)) for at, row in stamped),
        )

    def _ran(self, task: dict[str, Any], folder: Path) -> dict[str, str]:
        """Start the job and wait for its end; its process stays until `stop` or the next run."""
        log = folder / "pyflink.log"
        with log.open("w", encoding="utf-8") as errors:
            job = self._job = subprocess.Popen(
                [str(self._python), str(_JOB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, cwd=folder, env=environments.surroundings(self._python),
            )
        assert job.stdin is not None and job.stdout is not None
        told: dict[str, Any] = {}
        try:
            job.stdin.write(json.dumps(task) + "\n")
            job.stdin.flush()
            for line in job.stdout:  # to its end, or to the word that all is done
                told |= json.loads(line) if line.startswith("{") else {}
                if told.get("done"):
                    return told
        except BrokenPipeError:
            pass  # its last words say why
        job.wait()
        said = last_words(log.read_text(encoding="utf-8"))
        msg = f"PyFlink ended with {job.returncode}: {said}"
        raise TransportError(msg)

    def stop(self) -> None:
        """End the process of the last run."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            with suppress(BrokenPipeError):
                job.communicate("\n", timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:  # it was interrupted, and its job goes on
            job.kill()
            job.wait()


def last_words(log: str) -> str:
    """Give the cause that a log ends with: the last one that Java names, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(_CAUSE)]
    told = [line for line in lines if not line.startswith(("at ", "..."))]
    return causes[-1].removeprefix(_CAUSE) if causes else (told or ["no words"])[-1]


def read_rows(path: Path) -> list[tuple[float, Row]]:
    """Read the rows that a job has written, each with the time at which it left."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        at, *row = json.loads(line)
        found.append((float(at), tuple(row)))
    return found
