"""The function Spark calls: one superstep on one shard.

Takes Arrow batches of super tuples, gives Arrow batches of super tuples. The stages run in a thread
of their own and hand their output over through a bounded queue, because a DoFn cannot be paused in
the middle of `process` while its output is shipped.
"""

from __future__ import annotations

import gc
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa

from headrace.errors import TransportError
from headrace.worker.ends.column_writer import decode
from headrace.worker.ends.ordered_columns import decode_in_order
from headrace.worker.ends.scans import read_scan
from headrace.worker.exchange.packed_reports import pack, packed, unpacked
from headrace.worker.exchange.super_tuples import (
    REPORT_CHANNEL,
    SPARK_SCHEMA,
    SuperTuple,
    from_batch,
    to_batch,
)
from headrace.worker.frozen import freeze_modules
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
from headrace.worker.task.boxes import Boxes
from headrace.worker.task.failures import MARK, report_failure
from headrace.worker.task.fence import enter
from headrace.worker.task.kept_runs import end_run, forget_idle_runs, keep, name_of, taken
from headrace.worker.task.live_socket import Counted, teller
from headrace.worker.task.outlets import Send
from headrace.worker.task.resident import IDLE_SECONDS, LEAVES, framed, serve, unframed
from headrace.worker.task.shard import ShardRun
from headrace.worker.task.surroundings import prepare, settle

#: The engine enters this room by this door alone; what it needs from further in is handed out here.
__all__ = [
    "IDLE_SECONDS",
    "LEAVES",
    "MARK",
    "REPORT_CHANNEL",
    "SPARK_SCHEMA",
    "Epoch",
    "Link",
    "LogReport",
    "ShardReport",
    "StageReport",
    "SuperstepTask",
    "end_run",
    "framed",
    "from_row",
    "from_text",
    "pack",
    "packed",
    "read_output",
    "read_scan",
    "run_epoch",
    "run_superstep",
    "run_whole_epoch",
    "serve",
    "to_text",
    "unframed",
    "unpacked",
]

#: A superstep's pickled task, and the columns by which the rows of a shard are sorted there.
Link = tuple[bytes, tuple[str, ...]]
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


class RowQueue:
    """A bounded queue from the stages' thread to Spark's."""

    def __init__(self) -> None:
        self._queue: queue.Queue[SuperTuple | None] = queue.Queue(QUEUE_ROWS)
        self._taken = threading.Event()
        self._sent_bytes = self._taken_bytes = 0  # each is written by one thread alone
        self._closed = False
        self.failure: BaseException | None = None

    def send(self, row: SuperTuple | None) -> None:
        """Hand over one row; None is the end."""
        size = 0 if row is None else _size(row)
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

    def instead(self, put: Send) -> Send:
        """Give what hands rows to somebody else, for as long as Spark wants the task's output."""

        def send(row: SuperTuple) -> None:
            if self._closed:
                raise Stopped
            _size(row)
            put(row)

        return send

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


def _size(row: SuperTuple) -> int:
    """Give the bytes of a row's payload; refuse a row that cannot travel."""
    size = len(row.payload)
    if size > MAX_ROW_BYTES:
        msg = (
            f"channel {row.channel}: an element of {size:,} bytes is too large to travel; the most "
            f"is {MAX_ROW_BYTES:,} bytes. Cut it into parts, or keep it in a file and let its name "
            "travel"
        )
        raise TransportError(msg)
    return size


def run_superstep(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run all stages of one superstep on one shard."""
    settle(task.settings)
    return _in_thread(partial(_work, task, shard, batches))


def _freeze_modules() -> None:
    """Spare a worker of PySpark's own daemon the full collection of Beam's modules after each task.

    `headrace.worker.daemon` did it before the worker was forked; a session of the user's own has
    PySpark's daemon, which knows nothing of Beam. Any other process is not ours to change.
    """
    if "pyspark.worker" in sys.modules:
        freeze_modules()


def _in_thread(work: Callable[[RowQueue], None]) -> Iterator[pa.RecordBatch]:
    """Run the stages in a thread with a deep stack; give what they send."""
    _freeze_modules()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP_RECURSION))
    before = threading.stack_size(DEEP_STACK_BYTES)
    output = RowQueue()
    thread = threading.Thread(target=work, args=(output,), name="headrace-stages", daemon=True)
    thread.start()
    threading.stack_size(before)
    try:
        yield from output.batches()
    finally:
        output.close()
        thread.join()
        # Other threads have shallow stacks: deep recursion there must fail, not crash the process.
        sys.setrecursionlimit(limit)
    if output.failure is not None:
        raise output.failure


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


def run_whole_epoch(
    links: Sequence[Link], epoch: Epoch, shards: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one epoch of several supersteps on all shards, one after the other.

    What they send one another stays in this process; what is given is what the last of them sends.

    Args:
        links: each superstep's pickled task, and the columns by which its rows are sorted.
        epoch: what they must know of the epoch.
        shards: how many there are.
        batches: rows of a DataFrame, if one feeds the first of them.
    """
    return _in_thread(partial(_work_whole_epoch, links, epoch, shards, batches))


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
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch], output: RowQueue
) -> None:
    def work() -> None:
        enter(None)
        prepare(task.settings)
        counted = _counted(task, shard)
        send = output.send if counted is None else _counting(output.send, counted)
        run = ShardRun.bounded(task, shard)
        if run.fed_by_frame:
            run.run_epoch(ONLY_EPOCH, send, (), batches)
        else:
            rows = _rows(batches)
            rows = rows if counted is None else _seen(rows, task, counted)
            run.run_epoch(ONLY_EPOCH, send, rows, None)
        if counted is not None:
            counted.tell(done=True)

    _carefully(work, output)


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
    output: RowQueue,
) -> None:
    def work() -> None:
        enter(epoch)
        forget_idle_runs(epoch.run)
        _on_shard(blob, epoch, shard, _rows(batches), batches, output.send, partition)

    _carefully(work, output)


def _work_whole_epoch(
    links: Sequence[Link], epoch: Epoch, shards: int, batches: Iterable[pa.RecordBatch],
    output: RowQueue,
) -> None:
    def work() -> None:
        enter(epoch)
        forget_idle_runs(epoch.run)
        came: Boxes | None = None  # what the superstep before has sent; None: it is the first
        for at, (blob, _) in enumerate(links):
            boxes = None if at + 1 == len(links) else Boxes(shards, links[at + 1][1])
            send = output.send if boxes is None else output.instead(boxes.put)
            fed = came is None and epoch.feeding is not None
            for shard in range(1 if fed else shards):  # a DataFrame's partition is no shard
                rows = iter(()) if came is None else came.taken(shard)
                _on_shard(blob, epoch, shard, rows, batches, send, shard)
            came = boxes

    _carefully(work, output)


def _on_shard(
    blob: bytes, epoch: Epoch, shard: int, rows: Iterator[SuperTuple],
    batches: Iterable[pa.RecordBatch], send: Send, partition: int,
) -> None:
    """Run one epoch of one superstep on one shard: on rows, or batches if a DataFrame feeds it."""
    name = name_of(epoch.run, blob, shard)
    kept = taken(name, blob)
    if kept.fed_by_frame:
        kept.run_epoch(epoch, send, (), batches, partition)
    else:
        kept.run_epoch(epoch, send, rows, None, partition)
    keep(name, kept)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[SuperTuple]:
    return (row for batch in batches for row in from_batch(batch))


def _carefully(work: Callable[[], None], output: RowQueue) -> None:
    """Run the stages; a failure is carried to Spark's thread and raised there."""
    collecting = gc.isenabled()
    gc.disable()  # worth 20 %: elements are short-lived and acyclic; a guard below bounds the rest
    try:
        work()
    except Stopped:
        return
    except BaseException as failure:  # noqa: BLE001 (carried to Spark's thread and raised there)
        output.failure = report_failure(failure)
    finally:
        if collecting:
            gc.enable()
    try:
        output.send(None)
    except Stopped:
        return
