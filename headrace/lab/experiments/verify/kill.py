"""Begins a run in a process of its own that is killed in the middle: what is left is a checkpoint.

The process ends itself with SIGKILL at a place in the commit of its second epoch. Nothing but the
request's folder is shared with whoever goes on: what the driver kept in memory or in folders for
temporary files is lost, as with its machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from headrace.lab.commands import python_path
from headrace.lab.experiments.faults.phases import status
from headrace.lab.experiments.faults.processes import LINGER_SECONDS, descendants, end
from headrace.lab.systems.system import Request, checkpoint_of
from headrace.state.crash_points import Point

#: The epoch in whose commit the driver dies: one is committed, and others are still to come.
EPOCH = 1
#: How long the process may take.
SECONDS = 240.0
POLL_SECONDS = 0.2
#: Where the driver dies in the commit: before any task, before rows are written, before they count,
#: before Spark knows that they do.
GAPS = (Point.BEFORE_TASKS, Point.BEFORE_SINKS, Point.AFTER_SINKS, Point.AFTER_MANIFEST)
#: A run in a process of its own.
CHILD = "headrace.lab.experiments.verify.child"


class TooShortError(Exception):
    """A run was over before it could be killed."""


def next_epoch(crash: Point) -> int:
    """Give the epoch that is next when the driver is gone."""
    return EPOCH + 1 if crash is Point.AFTER_MANIFEST else EPOCH


def run_until_killed(request: Request, events: int, crash: Point) -> None:
    """Begin a run and see that it dies where it is meant to, and all its processes with it.

    Raises:
        TooShortError: it ended well, before the epoch in which it was to die.
        RuntimeError: it ended in another way; says how.
    """
    ended = _run(request, events, f"{crash.value}:{EPOCH}")
    if ended == 0:
        msg = f"the run was over before epoch {EPOCH}: give more events"
        raise TooShortError(msg)
    if ended != -signal.SIGKILL:
        log = request.folder.with_name("driver.log").read_text(errors="replace")
        last = " ".join(log.strip().splitlines()[-1:])
        msg = f"the driver ended with {ended} and was not killed: {last}"
        raise RuntimeError(msg)
    reached = status(checkpoint_of(request)).epoch + 1
    wanted = next_epoch(crash)
    if reached != wanted:
        msg = f"the crash was meant to come before epoch {wanted}, not {reached}"
        raise RuntimeError(msg)


def _run(request: Request, events: int, crash: str) -> int:
    """Run a driver until it has ended; give how it ended."""
    scratch = request.folder.with_name("scratch")  # a killed JVM leaves its temporary files
    scratch.mkdir(parents=True)
    environment = {
        **os.environ,
        "HEADRACE_CRASH": crash,
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts sooner
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(),
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
    }
    workload = request.workload
    command = [
        sys.executable, "-m", CHILD, workload.suite, workload.name, str(events),
        str(request.folder),
    ]
    with request.folder.with_name("driver.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=scratch, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )
    return _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + SECONDS
    known: set[int] = set()
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                msg = f"the driver did not end within {SECONDS:.0f} s"
                raise RuntimeError(msg)
            known |= descendants(process.pid)
            time.sleep(POLL_SECONDS)
    finally:
        # Also when this process is told to stop: nothing that was started may stay behind.
        linger = 0.0 if process.poll() is None else LINGER_SECONDS
        process.kill()
        process.wait()
        end(known, linger)
    return process.returncode
