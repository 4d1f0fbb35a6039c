"""Runs the tasks of a pipeline in one thread and writes down what each took, moved and made.

The door for a `headrace.testing` host: with it, stages run in the thread of the run itself, where
a profiler sees them. For batch pipelines; made for profilers and debuggers.
"""

from __future__ import annotations

import cProfile
import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa

from headrace.testing.host import Batches, LocalHost, WorkerDoor
from headrace.testing.runner import LocalRunner
from headrace.worker.entry import BATCH_BYTES, BATCH_ROWS, SuperstepTask
from headrace.worker.exchange.super_tuples import SuperTuple, from_batch, to_batch
from headrace.worker.protocol import ONLY_EPOCH
from headrace.worker.task.shard import ShardRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What one task did."""

    superstep: int
    shard: int
    seconds: float
    rows_in: int
    rows_out: int
    bytes_out: int  # of payloads


class MeasuredDoor(WorkerDoor):
    """Runs the tasks of a batch in the caller's thread.

    Args:
        profiler: on while tasks run, off in between.
    """

    def __init__(self, profiler: cProfile.Profile | None = None) -> None:
        self._profiler = profiler
        self.tasks: list[TaskFacts] = []  # superstep by superstep, shard by shard

    def superstep(
        self, task: SuperstepTask, shard: int, batches: Batches
    ) -> Iterator[pa.RecordBatch]:
        """Run a task of a batch."""
        came = [0]
        start = time.perf_counter()
        with self._profiler if self._profiler is not None else nullcontext():
            made = _run_here(task, shard, _counted(batches, came))
        seconds = time.perf_counter() - start
        self.tasks.append(
            TaskFacts(
                superstep=task.superstep.index, shard=shard, seconds=seconds, rows_in=came[0],
                rows_out=len(made), bytes_out=sum(len(row.payload) for row in made),
            )
        )
        return _batches(made)


def measured_runner(door: MeasuredDoor) -> LocalRunner:
    """Give a runner whose tasks go by this door."""
    return LocalRunner(host=LocalHost(door=door))


def _counted(batches: Batches, came: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        came[0] += batch.num_rows
        yield batch


def _run_here(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch]
) -> list[SuperTuple]:
    """Do what `run_superstep` does, without its thread and its queue."""
    collecting = gc.isenabled()
    gc.disable()
    made: list[SuperTuple] = []
    try:
        run = ShardRun.bounded(task, shard)
        if run.fed_by_frame:
            run.run_epoch(ONLY_EPOCH, made.append, (), batches)
        else:
            rows = (row for batch in batches for row in from_batch(batch))
            run.run_epoch(ONLY_EPOCH, made.append, rows, None)
    finally:
        if collecting:
            gc.enable()
    return made


def _batches(rows: Iterable[SuperTuple]) -> Iterator[pa.RecordBatch]:
    held: list[SuperTuple] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.payload)
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield to_batch(held)
            held, size = [], 0
    if held:
        yield to_batch(held)
