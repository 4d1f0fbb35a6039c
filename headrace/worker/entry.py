"""The function Spark calls: one superstep on one shard.

Takes Arrow batches of super tuples, gives Arrow batches of super tuples. The stages run in a thread
of their own and hand their output over through a bounded queue, because a DoFn cannot be paused in
the middle of `process` while its output is shipped.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.plan.settings import Settings
from headrace.plan.supersteps import Channel, Superstep
from headrace.worker.columns import decode
from headrace.worker.failures import MARK, report_failure
from headrace.worker.findings import LOG_NUMBER
from headrace.worker.frames import (
    REPORT_CHANNEL,
    SPARK_SCHEMA,
    SuperTuple,
    from_batch,
    to_batch,
)
from headrace.worker.main_session import load_main_session
from headrace.worker.shard import ShardRun

#: The engine enters this room by this door alone; what it needs from further in is handed out here.
__all__ = [
    "LOG_NUMBER",
    "MARK",
    "REPORT_CHANNEL",
    "SPARK_SCHEMA",
    "SuperstepTask",
    "read_output",
    "run_superstep",
]

#: Super tuples waiting to be shipped; bounds the memory between the stages and Spark.
QUEUE_ROWS = 64
#: Rows and bytes put into one Arrow batch.
BATCH_ROWS = 64
BATCH_BYTES = 4 << 20
#: Beam's operations call one another, a few frames for each step of a fused chain.
DEEP_RECURSION = 100_000
DEEP_STACK_BYTES = 512 << 20  # address space; memory only where it is used


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepTask:
    """Everything a task must know."""

    superstep: Superstep
    depths: tuple[int, ...]  # for each channel, the superstep that reads it
    channels: tuple[Channel, ...]
    components: bytes
    shards: int
    settings: Settings
    stage_numbers: tuple[int, ...]  # for each stage of the superstep, its place in the plan
    schemas: tuple[tuple[int, bytes], ...] = ()  # for each output channel, its Arrow schema
    source: int | None = None  # the channel that a DataFrame feeds; None: super tuples come in


class Stopped(BaseException):
    """Spark no longer wants the output; the stages must stop where they are."""


class Outbox:
    """A bounded queue from the stages' thread to Spark's."""

    def __init__(self) -> None:
        self._queue: queue.Queue[SuperTuple | None] = queue.Queue(QUEUE_ROWS)
        self._closed = False
        self.failure: BaseException | None = None

    def send(self, row: SuperTuple | None) -> None:
        """Hand over one row; None is the end."""
        while not self._closed:
            try:
                self._queue.put(row, timeout=1.0)
            except queue.Full:
                continue
            return
        raise Stopped

    def close(self) -> None:
        """Nobody will take more."""
        self._closed = True
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()  # wakes a sender that waits for room

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give what was sent, several rows at a time."""
        done = False
        while not done:
            rows: list[SuperTuple] = []
            size = 0
            row = self._queue.get()
            while True:
                if row is None:
                    done = True
                    break
                rows.append(row)
                size += len(row.payload)
                if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                    break
                try:
                    row = self._queue.get_nowait()
                except queue.Empty:
                    break
            if rows:
                yield to_batch(rows)


def run_superstep(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run all stages of one superstep on one shard."""
    if task.settings.folder and os.path.isdir(task.settings.folder):
        os.chdir(task.settings.folder)
    sys.path += [folder for folder in task.settings.python_path if folder not in sys.path]
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEP_RECURSION))
    before = threading.stack_size(DEEP_STACK_BYTES)
    outbox = Outbox()
    thread = threading.Thread(
        target=_work, args=(task, shard, batches, outbox), name="headrace-stages", daemon=True
    )
    thread.start()
    threading.stack_size(before)
    try:
        yield from outbox.batches()
    finally:
        outbox.close()
        thread.join()
    if outbox.failure is not None:
        raise outbox.failure


def read_output(schema: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the columns that lie in the payloads of super tuples."""
    columns = pa.ipc.read_schema(pa.py_buffer(schema))
    return decode(columns, (batch.column("payload") for batch in batches))


def _work(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch], outbox: Outbox
) -> None:
    collecting = gc.isenabled()
    gc.disable()  # worth 20 %: elements are short-lived and acyclic; a guard below bounds the rest
    try:
        load_main_session(task.settings.main_session, task.settings.pickle_library)
        run = ShardRun(task, shard, outbox.send)
        if task.source is not None:
            run.run_frame(task.source, batches)
        else:
            rows: Any = (row for batch in batches for row in from_batch(batch))
            run.run(rows)
    except Stopped:
        return
    except BaseException as failure:  # noqa: BLE001 (carried to Spark's thread and raised there)
        outbox.failure = report_failure(failure)
    finally:
        if collecting:
            gc.enable()
    try:
        outbox.send(None)
    except Stopped:
        return
