"""A process that runs jobs: what it starts ends with it, and its last words are told."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from headrace.errors import TransportError
from headrace.lab.systems.job_process import JobProcess, last_words

#: Starts a process of its own, tells its number, and sleeps when it is told to.
SCRIPT = """
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    if not line.strip():
        break
    task = json.loads(line)
    if task.get("fail"):
        sys.exit("no more of this")
    print(json.dumps({"child": child.pid}), flush=True)
    time.sleep(task.get("sleep", 0))
    print(json.dumps({"done": True}), flush=True)
"""


def started(tmp_path: Path) -> JobProcess:
    path = tmp_path / "job.py"
    path.write_text(SCRIPT)
    return JobProcess("a toy", [sys.executable, str(path)], os.environ)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet has ended too."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("busy", [False, True])
def test_what_a_job_has_started_ends_with_it(tmp_path: Path, busy: bool) -> None:
    job = started(tmp_path)
    child = job.ran({})["child"]
    assert is_there(child)
    if busy:
        thread = threading.Thread(target=lambda: _ended(job), daemon=True)
        thread.start()
        time.sleep(0.5)
    start = time.monotonic()
    job.stop()
    end = time.monotonic() + 20
    while is_there(child) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_there(child) and not job.is_there
    assert time.monotonic() - start < 20  # nobody waits for the job's ten minutes


def _ended(job: JobProcess) -> None:
    with pytest.raises(TransportError):
        job.ran({"sleep": 600})


def test_a_job_that_fails_says_its_last_words(tmp_path: Path) -> None:
    job = started(tmp_path)
    with pytest.raises(TransportError, match="a toy ended with 1: no more of this"):
        job.ran({"fail": True})
    assert not job.is_there
    job.stop()


def test_last_words_are_the_last_cause_that_java_names() -> None:
    log = "Exception: a\nCaused by: b\n\tat x.Y\nCaused by: c\n\tat x.Z\n\t... 3 more\n"
    assert last_words(log) == "c"
    assert last_words("one\ntwo\n\tat x.Y\n") == "two"
    assert last_words("") == "no words"
