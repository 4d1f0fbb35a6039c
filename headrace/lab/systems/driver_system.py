"""A system whose driver is a process of its own, so that it can be killed and started again.

What is killed is all that the driver is: the Python process, its JVM and their workers, as with
their machine. The checkpoint and the rows that had left are in files, and nothing else is handed to
the driver that is started next. It is started at once, as by somebody who watches it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from apache_beam.internal import cloudpickle_pickler

from headrace.errors import TransportError
from headrace.lab.meter import tree
from headrace.lab.systems.job_process import JobProcess
from headrace.lab.systems.system import Outcome, Request

_JOB = "headrace.lab.systems.driver_job"
_MAKER = "headrace.lab.systems.choose:choose"


class DriverSystem:
    """Runs a system in a process that `kill_driver` ends, and goes on with another one.

    Args:
        name: of the system.
        master: where its Spark runs, as in local[2].
        marker: a file; while it is there the disk of the checkpoint is slow. None: it never is.
        maker: of the system, as "module:function", another one for tests.
    """

    def __init__(
        self, name: str, master: str, *, marker: Path | None = None, maker: str = _MAKER
    ) -> None:
        self.name = name
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # A JVM that is killed leaves its temporary files.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="headrace-lab-", ignore_cleanup_errors=True
        )
        self._env = {
            **os.environ, "PYTHONPATH": paths, "TMPDIR": self._scratch.name,
            "SPARK_LOCAL_DIRS": self._scratch.name,
        }
        self._command = [
            sys.executable, "-m", _JOB, name, master, maker, str(marker or "")
        ]
        self._job: JobProcess | None = None
        self._is_killed = False
        self.kills = 0  # of drivers, so far

    @property
    def pid(self) -> int:
        """The driver's process; this one while there is none."""
        return os.getpid() if self._job is None else self._job.pid

    def prepare(self, request: Request) -> None:
        """Start a driver, and what must run before the time is taken.

        Raises:
            TransportError: it did not start; says its last words.
        """
        self._tell(request, outcome="")

    def run(self, request: Request) -> Outcome:
        """Run to the end, however often the driver is killed.

        Raises:
            TransportError: a driver has failed by itself; says its last words.
        """
        outcome = request.folder / "outcome.pickle"
        while not outcome.exists():
            try:
                self._tell(request, outcome=str(outcome))
            except TransportError:
                if not self._is_killed:
                    raise
                self._is_killed, self._job = False, None
        found: Outcome = pickle.loads(outcome.read_bytes())
        # Of the epochs before a kill nobody can tell any more.
        return replace(found, epochs=()) if self.kills else found

    def _tell(self, request: Request, *, outcome: str) -> None:
        """Let a driver get ready for a request, and run it if there is a file for its outcome."""
        if self._job is None:
            self._job = JobProcess(self.name, self._command, self._env)
        kept = replace(request.sink, path=str(request.folder / "left"))
        path = request.folder / "request.pickle"
        path.write_bytes(cloudpickle_pickler.dumps(replace(request, sink=kept)))
        self._job.ran({"request": str(path), "outcome": outcome})

    def kill_driver(self) -> bool:
        """Kill the driver and all that it has started; say whether there was one."""
        job = self._job
        if job is None or not job.is_there:
            return False
        below = tree(job.pid)
        self._is_killed = True
        self.kills += 1
        for pid in (job.pid, *below):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def stop(self) -> None:
        """End the driver."""
        job, self._job = self._job, None
        if job is not None:
            job.stop()
        self._scratch.cleanup()
