"""Keeps the tasks of a driver that was overtaken from changing what the newer one counts on.

A driver that was stopped, thought dead and goes on has tasks that go on too. What they write to the
checkpoint never counts, but user code also moves files: Beam's file sinks put theirs in place so.
Looks for a newer driver before an epoch's work begins, and before each such move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from apache_beam.io.filesystems import FileSystems

from headrace.errors import CheckpointError
from headrace.worker.protocol import Epoch

#: What changes files for good; writing to new files harms nobody.
_GUARDED = ("rename", "copy", "delete")

_epoch: Epoch | None = None  # a worker process has one task at a time


def enter(epoch: Epoch | None) -> None:
    """Say for which epoch this process works from now on; None: for none of a stream."""
    global _epoch
    _epoch = epoch
    if epoch is not None:
        check()
        _guard()


def check() -> None:
    """Raise a CheckpointError if a newer driver has taken the checkpoint over."""
    if _epoch is None or _epoch.files is None:
        return
    if _epoch.files.exists(_epoch.next_driver):
        msg = (
            f"a newer driver has taken checkpoint {_epoch.files.location} over; this task belongs "
            f"to incarnation {_epoch.incarnation} and stops, epoch {_epoch.number} does not count"
        )
        raise CheckpointError(msg)


def _guard() -> None:
    """Let Beam's file systems look before they change files, in this process."""
    for name in _GUARDED:
        found = getattr(FileSystems, name)
        if hasattr(found, "guarded_by_headrace"):
            continue
        setattr(FileSystems, name, staticmethod(_guarded(found)))


P = ParamSpec("P")
R = TypeVar("R")


def _guarded(change: Callable[P, R]) -> Callable[P, R]:
    @wraps(change)
    def guarded(*args: P.args, **named: P.kwargs) -> R:
        check()
        return change(*args, **named)

    guarded.guarded_by_headrace = True  # type: ignore[attr-defined]
    return guarded
