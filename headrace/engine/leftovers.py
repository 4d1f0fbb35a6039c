"""Folders that end with their process, and those whose process ended before it could remove them.

A note in each says which process it is for. One whose process is certainly gone is removed by the
next run of the same user on the same machine. In doubt a folder stays.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from headrace.state.machine import Machine, Process, started, this_process

_LOG = logging.getLogger(__name__)

#: The file in a folder that says which process it is for.
NOTE = ".headrace-process"
#: All our folders below the one for temporary files begin so.
PREFIX = "headrace-"

_own: set[Path] = set()


def own_folder(kind: str) -> Path:
    """Make a folder that only this user can enter and that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
    note_process(folder)
    _own.add(folder)
    return folder


def note_process(folder: Path) -> None:
    """Say in a folder that it is for this process alone."""
    (folder / NOTE).write_text(json.dumps(asdict(this_process())), encoding="utf-8")


@atexit.register
def remove_own_folders() -> None:
    """Remove what `own_folder` made in this process; what others have forked stays theirs."""
    for folder in list(_own):
        if (note := read_note(folder)) is not None and note.pid == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
            _own.discard(folder)


def read_note(folder: Path) -> Process | None:
    """Give the process a folder is for; None: nothing says so."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        return Process(
            machine=Machine(host=str(note["machine"]["host"]), boot=str(note["machine"]["boot"])),
            pid=int(note["pid"]), started=str(note["started"]), numbering=str(note["numbering"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_over(process: Process, here: Process, now: str | None) -> bool:
    """Whether a process is certainly gone.

    Args:
        process: what a note says.
        here: the process that asks.
        now: when the process that has the number now was started; None: none has it.
    """
    if process.machine.host != here.machine.host:
        return False
    if process.machine.boot != here.machine.boot:
        return True
    return process.numbering == here.numbering and now != process.started


def sweep_folders() -> int:
    """Remove folders of this user whose processes are gone; give how many went."""
    count, here = 0, this_process()
    temporary = tempfile.gettempdir()
    for name in os.listdir(temporary):
        if not name.startswith(PREFIX):
            continue
        folder = Path(temporary, name)
        with suppress(OSError):
            found = os.lstat(folder)
            # Only what this user made and nobody else could enter: its note can be believed.
            mine = found.st_uid == os.geteuid() and not found.st_mode & 0o077
            if not stat.S_ISDIR(found.st_mode) or not mine:
                continue
            process = read_note(folder)
            if process is None or not is_over(process, here, started(process.pid)):
                continue
            if not _is_locked(folder / "lock"):
                shutil.rmtree(folder, ignore_errors=True)
                count += 1
    if count:
        _LOG.info("removed %s temporary folders of runs that were killed", count)
    return count


def _is_locked(path: Path) -> bool:
    """Whether a driver holds the lock of a checkpoint."""
    try:
        with open(path, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
