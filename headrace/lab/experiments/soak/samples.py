"""What is looked at after each epoch: memory, disk, time, state. Judges nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headrace.lab.meter import tree, workers

#: What `st_blocks` counts in, whatever the file system's own blocks are.
_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look."""

    seconds: float  # since the soak began
    epoch: int
    epoch_seconds: float
    worker_bytes: int  # resident, all Python workers
    jvm_bytes: int
    local_bytes: int  # allocated for local stores
    checkpoint_bytes: int  # allocated, without Spark's own log of batches
    spark_log_bytes: int  # Spark keeps a hundred batches, whatever they held
    state_rows: int


def allocated(folder: Path) -> int:
    """Give the bytes that a folder's files really occupy; LMDB's files are sparse."""
    total = 0
    for path in folder.rglob("*"):
        try:
            found = path.lstat()
        except OSError:
            continue  # swept since the listing
        total += found.st_blocks * _BLOCK_BYTES
    return total


def resident(pid: int) -> int:
    """Give the resident memory of a process; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def split_checkpoint(folder: Path) -> tuple[int, int]:
    """Give the bytes of our own part of a checkpoint, and of the part that Spark writes."""
    spark = allocated(folder / "spark")
    return max(0, allocated(folder) - spark), spark


def look(seconds: float, status: Any, folder: Path) -> Sample:
    """Take one sample of a run whose checkpoint and local state lie in the folder."""
    processes = tree(os.getpid())
    jvms = [p.pid for p in processes.values() if p.command == "java"]
    ours, log = split_checkpoint(folder / "checkpoint")
    return Sample(
        seconds=seconds,
        epoch=status.epoch,
        epoch_seconds=status.epoch_seconds,
        worker_bytes=sum(map(resident, workers(processes))),
        jvm_bytes=sum(map(resident, jvms)),
        local_bytes=allocated(folder / "local"),
        checkpoint_bytes=ours,
        spark_log_bytes=log,
        state_rows=status.state_rows,
    )
