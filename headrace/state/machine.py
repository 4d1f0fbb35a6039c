"""Tells this machine, its present start and this process from all others.

For notes that are left beside files, so that a later process can know whether their maker lives.
"""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine since it was last started; what is not known is empty."""

    host: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; its number alone may come again."""

    machine: Machine
    pid: int
    started: str  # as the kernel counts it
    numbering: str  # processes with another one (in containers) have numbers of their own


@functools.cache
def this_machine() -> Machine:
    """Give the machine that this process runs on."""
    identity = _read("/etc/machine-id")
    return Machine(
        host=f"{socket.gethostname()} {identity}".strip(),
        boot=_read("/proc/sys/kernel/random/boot_id") or "boot",
    )


def this_process() -> Process:
    """Give this very process."""
    pid = os.getpid()
    return Process(
        machine=this_machine(), pid=pid, started=started(pid) or "", numbering=numbering()
    )


def numbering() -> str:
    """Name the processes that this one can see by their numbers."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """Say when a process was started; empty: it is not known; None: there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # another user's
    # The kernel's own count, as it stands: psutil adds the time of boot to it, which moves with the
    # wall clock, and a process that lives must never look like another one.
    stat = _read(f"/proc/{pid}/stat")
    # The name, in brackets, may hold anything; the start is the twentieth field behind it.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
