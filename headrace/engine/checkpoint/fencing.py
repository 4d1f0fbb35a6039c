"""Who may write to a checkpoint folder: its lock, and the numbers of those who have claimed it.

A driver that starts locks the folder, where there are locks, and claims the next incarnation number
by creating a file: of several that try, one succeeds. Whoever finds the number after its own taken
has been overtaken. Knows nothing of manifests and epochs. Times are handed in.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Protocol

from headrace.engine.checkpoint.exclusive import created, see_that_it_refuses
from headrace.engine.checkpoint.manifests import numbered
from headrace.engine.checkpoint.reading import numbers
from headrace.errors import CheckpointError
from headrace.state.files import Files

LOCK = "lock"
#: Where incarnations are claimed, below the checkpoint.
INCARNATIONS = "incarnations"

_log = logging.getLogger(__name__)


class Lock(Protocol):
    """Keeps others from a folder until it is closed, or its process ends."""

    def close(self) -> None:
        """Let others have the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One start of a driver on a checkpoint; what is not known is empty."""

    number: int
    host: str = ""
    pid: int = 0
    started: str = ""  # ISO 8601, UTC

    def __str__(self) -> str:
        return (
            f"incarnation {self.number} (process {self.pid or 'unknown'} on host "
            f"{self.host or 'unknown'}, started at {self.started or 'an unknown time'})"
        )


def incarnations_of(files: Files) -> list[Incarnation]:
    """Give all starts of a driver, oldest first."""
    return [incarnation_of(files, number) for number in numbers(files, INCARNATIONS)]


def newest_incarnation(files: Files) -> Incarnation:
    """Give the newest start of a driver; there must be one."""
    return incarnation_of(files, max(numbers(files, INCARNATIONS)))


def incarnation_of(files: Files, number: int) -> Incarnation:
    """Say who an incarnation was. For messages: a record that cannot be read stops nobody."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(files.read(incarnation_name(number)))
        return Incarnation(
            number=number, host=str(found["host"]), pid=int(found["pid"]),
            started=str(found["started"]),
        )
    return Incarnation(number=number)


def incarnation_name(number: int) -> str:
    """Give the name of the file by which an incarnation was claimed."""
    return f"{INCARNATIONS}/{numbered(number)}"


def claimed(files: Files, now: int) -> int:
    """Claim the next incarnation number; CheckpointError where a claim cannot be relied on."""
    started = datetime.fromtimestamp(now // 1_000_000, timezone.utc).isoformat()
    number = max(numbers(files, INCARNATIONS), default=0) + 1
    while True:
        record = {
            "host": socket.gethostname(), "pid": os.getpid(), "started": started,
            "token": uuid.uuid4().hex,
        }
        data = json.dumps(record).encode()
        if created(files, incarnation_name(number), data):
            break
        number += 1
    see_that_it_refuses(files, incarnation_name(number), data)
    return number


def locked(files: Files) -> Lock | None:
    """Lock a folder for this process; None if it has no locks; an error names who has it."""
    if files.has_memory_lock:
        found = files.memory_lock()
        if found is None:
            msg = f"checkpoint {files.location} is in use in this process; end that run first"
            raise CheckpointError(msg)
        return found
    if not files.is_local:
        return None
    Path(files.path("")).mkdir(parents=True, exist_ok=True)
    lock = open(files.path(LOCK), "a+", encoding="utf-8")  # held until it is closed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        with lock:
            holder = _holder(lock)
        msg = (
            f"checkpoint {files.location} is in use by {holder}; "
            "stop it, or use another checkpoint folder"
        )
        raise CheckpointError(msg) from e
    except OSError as e:  # some network file systems have no locks; incarnations guard them still
        _log.warning("checkpoint %s cannot be locked (%s); goes on without", files.location, e)
        lock.close()
        return None
    lock.seek(0)
    lock.truncate()
    lock.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
    lock.flush()
    return lock


def _holder(lock: IO[str]) -> str:
    lock.seek(0)
    try:
        found = json.loads(lock.read())
        return f"process {found['pid']} on host {found['host']}"
    except (ValueError, TypeError, KeyError):  # it has locked the file and not yet written to it
        return "another process"
