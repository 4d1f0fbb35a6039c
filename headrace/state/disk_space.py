"""Says which folder has no room left, how much was to be written there and how much is free.

Takes what the system raised, gives an error that a person can act on. Writes nothing itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import DiskFullError

#: What the system says when there is no room, and when a user may have no more.
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def space_for(path: str, needed: int | None = None) -> Iterator[None]:
    """Let a write that finds no room fail by an error that names the folder.

    Args:
        path: of the file that is written.
        needed: its bytes, if they are known.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, DiskFullError) or not is_full(error):
            raise
        raise DiskFullError(_message(os.path.dirname(path) or ".", needed)) from error


def is_full(error: OSError) -> bool:
    """Whether the system says that there is no room."""
    return error.errno in _FULL or os.strerror(errno.ENOSPC) in str(error)


def free_bytes(folder: str) -> int | None:
    """Give the room on the disk of a folder that may not be there; None if it cannot be known."""
    while folder and not os.path.isdir(folder):
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    try:
        disk = os.statvfs(folder or ".")
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def _message(folder: str, needed: int | None) -> str:
    free = free_bytes(folder)
    has = f"{folder} has {free:,} bytes free" if free is not None else f"{folder} is full"
    wants = "" if needed is None else f", {needed:,} bytes are to be written"
    return (
        f"{os.strerror(errno.ENOSPC)}: {has}{wants}. What was committed is whole: make room there, "
        "and start the pipeline again"
    )
