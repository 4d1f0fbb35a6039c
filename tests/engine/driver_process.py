"""A driver without Spark, as a process of its own: opens checkpoints and commits empty epochs.

    python -m tests.engine.driver_process race          a place a line, answers what it committed
    python -m tests.engine.driver_process stop PLACE WHEN   stops itself in the commit of an epoch

With HEADRACE_TEST_NO_LOCKS set, `flock` answers as a file system without locks does. It is
replaced here, in the process, before anything of headrace is loaded.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import sys
from typing import Any

NO_LOCKS = "HEADRACE_TEST_NO_LOCKS"
STOP_EPOCH = 5


def _no_lock(*_: Any) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


if NO_LOCKS in os.environ:
    fcntl.flock = _no_lock

from headrace.engine.checkpoint.checkpoints import Checkpoint  # noqa: E402
from headrace.errors import CheckpointError  # noqa: E402
from tests.engine.test_checkpoints import NOON, PIPELINE, commit  # noqa: E402


def opened(place: str) -> Checkpoint:
    """Take a checkpoint over."""
    return Checkpoint.open(place, PIPELINE, now=NOON)


def committed(checkpoint: Checkpoint, count: int, *, sweep: bool = True) -> list[int]:
    """Commit epochs until there are enough, or another driver has taken over; give those."""
    done = []
    try:
        for _ in range(count):
            done.append(commit(checkpoint).epoch)
            if sweep:
                checkpoint.sweep()
    except CheckpointError as e:
        print(e, file=sys.stderr)
    return done


def race() -> None:
    """Take part in one race for each line."""
    print("ready", flush=True)
    for line in sys.stdin:
        with opened(line.strip()) as checkpoint:
            done = committed(checkpoint, 2, sweep=False)
            print(json.dumps([checkpoint.incarnation, done]), flush=True)


def stop(place: str, when: str) -> None:
    """Commit epochs; stop before, in, or after the creation of a manifest, until continued."""
    checkpoint = opened(place)
    create, exists = checkpoint.files.create, checkpoint.files.exists

    def stop_here(moment: str) -> None:
        if moment == when and checkpoint.next_epoch == STOP_EPOCH:
            os.kill(os.getpid(), signal.SIGSTOP)

    def stopping_create(name: str, data: bytes) -> bool:
        stop_here("looked")
        found = create(name, data)
        stop_here("created")
        return found

    def stopping_exists(name: str) -> bool:
        stop_here("begun")
        return exists(name)

    checkpoint.files.create = stopping_create  # type: ignore[method-assign]
    checkpoint.files.exists = stopping_exists  # type: ignore[method-assign]
    print(json.dumps(committed(checkpoint, STOP_EPOCH + 10)), flush=True)


if __name__ == "__main__":
    {"race": race, "stop": stop}[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
