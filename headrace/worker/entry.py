"""The function Spark calls: one superstep on one shard.

Takes Arrow batches of super tuples, gives Arrow batches of super tuples. The stages run in a thread
of their own and hand their output over through a bounded queue, because a DoFn cannot be paused in
the middle of `process` while its output is shipped.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa

from headrace.errors import TransportError
from headrace.plan.settings import Settings
from headrace.worker.exchange.column_writer import decode
from headrace.worker.exchange.file_scan import scanned
from headrace.worker.exchange.ordered_columns import decode_in_order
from headrace.worker.exchange.super_tuples import (
    REPORT_CHANNEL,
    SPARK_SCHEMA,
    SuperTuple,
    from_batch,
    to_batch,
)
from headrace.worker.protocol import (
    ONLY_EPOCH,
    Epoch,
    LogReport,
    ShardReport,
    StageReport,
    SuperstepTask,
    from_row,
    from_text,
    to_text,
)
from headrace.worker.task.failures import MARK, report_failure
from headrace.worker.task.fence import enter
from headrace.worker.task.live_channel import Counted, teller
from headrace.worker.task.shard import ShardRun
from headrace.worker.task.surroundings import prepare

#: The engine enters this room by this door alone; what it needs from further in is handed out here.
__all__ = [
    "MARK",
    "REPORT_CHANNEL",
    "SPARK_SCHEMA",
    "Epoch",
    "LogReport",
    "ShardReport",
    "StageReport",
    "SuperstepTask",
    "end_run",
    "from_row",
    "from_text",
    "read_output",
    "run_epoch",
    "run_superstep",
    "scanned",
    "to_text",
]

#: Super tuples waiting to be shipped; bounds the memory between the stages and Spark.
QUEUE_ROWS = 64
QUEUE_BYTES = 16 << 20
#: Rows and bytes put into one Arrow batch.
BATCH_ROWS = 64
BATCH_BYTES = 4 << 20
#: What Spark and Arrow can carry in one row, less what stands around it: sizes have 31 bits there.
MAX_ROW_BYTES = (1 << 31) - (1 << 20)
#: Beam's operations call one another, a few frames for each step of a fused chain.
DEEP_RECURSION = 100_000
DEEP_STACK_BYTES = 512 << 20  # address space; memory only where it is used


class Stopped(BaseException):
    """Spark no longer wants the output; the stages must stop where they are."""


class Outbox:
    """A bounded queue from the stages' thread to Spark's."""

    def __init__(self) -> None:
        self._queue: queue.Queue[SuperTuple | None] = queue.Queue(QUEUE_ROWS)
        self._taken = threading.Event()
        self._sent_bytes = self._taken_bytes = 0  # each is written by one thread alone
        self._closed = False
        self.failure: BaseException | None = None

    def send(self, row: SuperTuple | None) -> None:
        """Hand over one row; None is the end."""
        size = 0 if row is None else len(row.payload)
        if size > MAX_ROW_BYTES:
            msg = (
                f"channel {row.channel if row else ''}: an element of {size:,} bytes is too large "
                f"to travel; the most is {MAX_ROW_BYTES:,} bytes. Cut it into parts, or keep it in "
                "a file and let its name travel"
            )
            raise TransportError(msg)
        while not self._closed:
            # One row always fits, however large.
            waiting = self._sent_bytes - self._taken_bytes
            if waiting and waiting + size > QUEUE_BYTES:
                self._taken.clear()
                if self._sent_bytes - self._taken_bytes == waiting:
                    self._taken.wait(1.0)
                continue
            try:
                self._queue.put(row, timeout=1.0)
            except queue.Full:
                continue
            self._sent_bytes += size
            return
        raise Stopped

    def close(self) -> None:
        """Nobody will take more."""
        self._closed = True
        self._taken.set()
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
                self._taken_bytes += len(row.payload)
                self._taken.set()
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
    _settle(task.settings)
    return _in_thread(partial(_work, task, shard, batches))


def _settle(settings: Settings) -> None:
    if settings.folder and os.path.isdir(settings.folder):
        os.chdir(settings.folder)
    sys.path += [folder for folder in settings.python_path if folder not in sys.path]


def _in_thread(work: Callable[[Outbox], None]) -> Iterator[pa.RecordBatch]:
    """Run the stages in a thread with a deep stack; give what they send."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP_RECURSION))
    before = threading.stack_size(DEEP_STACK_BYTES)
    outbox = Outbox()
    thread = threading.Thread(target=work, args=(outbox,), name="headrace-stages", daemon=True)
    thread.start()
    threading.stack_size(before)
    try:
        yield from outbox.batches()
    finally:
        outbox.close()
        thread.join()
        # Other threads have shallow stacks: deep recursion there must fail, not crash the process.
        sys.setrecursionlimit(limit)
    if outbox.failure is not None:
        raise outbox.failure


def run_epoch(
    blob: bytes, epoch: Epoch, shard: int, batches: Iterable[pa.RecordBatch], partition: int = 0
) -> Iterator[pa.RecordBatch]:
    """Run one epoch of one superstep on one shard.

    Args:
        blob: a pickled `SuperstepTask`.
        epoch: what it must know of the epoch.
        shard: which one.
        batches: super tuples, or rows of a DataFrame.
        partition: of the DataFrame, which one.
    """
    return _in_thread(partial(_work_epoch, blob, epoch, shard, batches, partition))


def end_run(run: str, confirmed: Sequence[str]) -> None:
    """Run the callbacks that still wait in this process; let every DoFn of the run tear down."""
    for name in [name for name in _KEPT if name[0] == run]:
        kept = _KEPT.pop(name)
        kept.finalise(confirmed)
        kept.tear_down()


def read_output(
    schema: bytes, batches: Iterable[pa.RecordBatch], order_bytes: int = 0
) -> Iterator[pa.RecordBatch]:
    """Give the columns that lie in the payloads of super tuples.

    Args:
        schema: of the columns.
        batches: super tuples; of an ordered channel, all of them, sorted by `numbers`.
        order_bytes: of an ordered channel, of each number.
    """
    columns = pa.ipc.read_schema(pa.py_buffer(schema))
    if order_bytes:
        return decode_in_order(columns, batches, order_bytes)
    return decode(columns, (batch.column("payload") for batch in batches))


def _work(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch], outbox: Outbox
) -> None:
    def work() -> None:
        enter(None)
        prepare(task.settings)
        counted = _counted(task, shard)
        send = outbox.send if counted is None else _counting(outbox.send, counted)
        run = ShardRun.bounded(task, shard)
        if run.fed_by_frame:
            run.run_epoch(ONLY_EPOCH, send, (), batches)
        else:
            rows = _rows(batches)
            rows = rows if counted is None else _seen(rows, task, counted)
            run.run_epoch(ONLY_EPOCH, send, rows, None)
        if counted is not None:
            counted.tell(done=True)

    _carefully(work, outbox)


def _counted(task: SuperstepTask, shard: int) -> Counted | None:
    """Give what tells the driver how far the task is; None: it does not listen."""
    channel = teller(task.settings.ear)
    if channel is None or task.source is not None:  # a partition of a DataFrame is no shard
        return None
    counted = Counted(channel, task.settings.run, task.superstep.index, shard)
    counted.look()
    return counted


def _seen(
    rows: Iterator[SuperTuple], task: SuperstepTask, counted: Counted
) -> Iterator[SuperTuple]:
    here = task.superstep.index
    for row in rows:
        if row.channel != REPORT_CHANNEL and task.depths[row.channel] == here:
            counted.taken += row.elements
            counted.look()
        yield row


def _counting(
    send: Callable[[SuperTuple | None], None], counted: Counted
) -> Callable[[SuperTuple | None], None]:
    def count(row: SuperTuple | None) -> None:
        if row is not None and row.channel != REPORT_CHANNEL:
            counted.given += row.elements
            counted.look()
        send(row)

    return count


def _work_epoch(
    blob: bytes, epoch: Epoch, shard: int, batches: Iterable[pa.RecordBatch], partition: int,
    outbox: Outbox,
) -> None:
    def work() -> None:
        enter(epoch)
        name = (epoch.run, zlib.crc32(blob), shard)
        _forget_idle_runs(epoch.run)
        # Taken out while it works: what fails in the middle of an epoch is not used again.
        kept = _KEPT.pop(name, None)
        if kept is None:
            task: SuperstepTask = pickle.loads(blob)
            _settle(task.settings)
            prepare(task.settings)
            kept = ShardRun.streaming(task, shard)
        else:
            prepare(kept.settings)  # another run's task may have been here since
        frame = batches if kept.fed_by_frame else None
        rows = () if frame is not None else _rows(batches)
        kept.run_epoch(epoch, outbox.send, rows, frame, partition)
        _KEPT[name] = kept

    _carefully(work, outbox)


#: What this process keeps between epochs: (run, superstep, shard) -> its stages.
_KEPT: dict[tuple[str, int, int], ShardRun] = {}


#: When each run last had a task here.
_SEEN: dict[str, float] = {}
#: A run that had no task here for so long is over, or elsewhere. Others may share the session.
IDLE_SECONDS = 120.0


def _forget_idle_runs(run: str) -> None:
    """Tear down what runs that are over left here."""
    now = time.monotonic()
    _SEEN[run] = now
    idle = {name for name, seen in _SEEN.items() if now - seen > IDLE_SECONDS}
    for name in [name for name in _KEPT if name[0] in idle]:
        _KEPT.pop(name).tear_down()
    for other in idle:
        del _SEEN[other]


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[SuperTuple]:
    return (row for batch in batches for row in from_batch(batch))


def _carefully(work: Callable[[], None], outbox: Outbox) -> None:
    """Run the stages; a failure is carried to Spark's thread and raised there."""
    collecting = gc.isenabled()
    gc.disable()  # worth 20 %: elements are short-lived and acyclic; a guard below bounds the rest
    try:
        work()
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
