"""One process as the host of a run: every task through the worker's own door, one after the other.

Rows go to the shard that is written in them, as the exchange would send them, and are held in
memory in between. Starts no Spark and no JVM. See `headrace.engine.host` for the contract.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import pyarrow as pa

from headrace.engine.host import Feeds
from headrace.engine.layouts import Layout
from headrace.engine.status import StreamOptions
from headrace.engine.tasks import EpochTasks, first_parts, frame_at, links_of, sorted_by, tasks_of
from headrace.errors import SessionError, TransportError
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.testing.frames import LocalFrame, LocalSession
from headrace.testing.streams import scripted_feeds, selected
from headrace.worker.entry import (
    REPORT_CHANNEL,
    Epoch,
    Link,
    SuperstepTask,
    end_run,
    read_output,
    run_epoch,
    run_superstep,
    run_whole_epoch,
)

Batches = Iterable[pa.RecordBatch]

#: A worker process has one task at a time, and this process stands for all of them.
_ONE_TASK = threading.RLock()
#: The thread in which a task runs user code.
_STAGES = "headrace-stages"


class Door(Protocol):
    """How tasks are run: the worker's door, or what a test or a profiler puts in its place."""

    def superstep(
        self, task: SuperstepTask, shard: int, batches: Batches
    ) -> Iterable[pa.RecordBatch]:
        """Run a task of a batch."""

    def epoch(
        self, blob: bytes, epoch: Epoch, shard: int, batches: Batches
    ) -> Iterable[pa.RecordBatch]:
        """Run a task of an epoch."""

    def whole_epoch(
        self, links: Sequence[Link], epoch: Epoch, shards: int, batches: Batches
    ) -> Iterable[pa.RecordBatch]:
        """Run an epoch as one task."""


class WorkerDoor:
    """The door by which Spark's tasks enter too."""

    def superstep(
        self, task: SuperstepTask, shard: int, batches: Batches
    ) -> Iterator[pa.RecordBatch]:
        """Run a task of a batch."""
        return run_superstep(task, shard, batches)

    def epoch(
        self, blob: bytes, epoch: Epoch, shard: int, batches: Batches
    ) -> Iterator[pa.RecordBatch]:
        """Run a task of an epoch."""
        return run_epoch(blob, epoch, shard, batches)

    def whole_epoch(
        self, links: Sequence[Link], epoch: Epoch, shards: int, batches: Batches
    ) -> Iterator[pa.RecordBatch]:
        """Run an epoch as one task."""
        return run_whole_epoch(links, epoch, shards, batches)


class LocalRows:
    """What the tasks have put out; computed at the first question."""

    def __init__(self, session: LocalSession, work: Callable[[], list[pa.RecordBatch]]) -> None:
        self._session = session
        self._work = work
        self._found: list[pa.RecordBatch] | None = None

    def keep(self) -> None:
        """Rows stay as long as this object does."""

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the tasks; give the reports."""
        self._found = self._work()
        return [
            (seq, payload)
            for batch in self._found
            for channel, seq, payload in zip(
                *(batch.column(name).to_pylist() for name in ("channel", "seq", "payload")),
                strict=True,
            )
            if channel == REPORT_CHANNEL
        ]

    def output(
        self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0
    ) -> LocalFrame:
        """Give what was sent to an output channel, as a DataFrame."""
        assert self._found is not None
        kept = []
        for batch in self._found:
            found = batch.column("channel").to_pylist()
            mine = [i for i, its in enumerate(found) if its == channel]
            if mine:
                kept.append(batch if len(mine) == len(found) else batch.take(pa.array(mine)))
        arrow = pa.ipc.read_schema(pa.py_buffer(schema))
        if order_bytes:
            kept = _sorted(kept, ("numbers",))
        rows = read_output(schema, kept, order_bytes)
        table = pa.Table.from_batches(rows, schema=arrow)
        return LocalFrame(self._session, table, columns)

    def forget(self) -> None:
        """Let the rows go."""
        self._found = None


class LocalHost:
    """This process.

    Args:
        session: what makes DataFrames.
        door: how tasks are run.
        in_turn: entered for each task; for hosts that are made to stand still in the middle of one.
    """

    parallelism = 2  # tasks run one after the other; the answer must not depend on their number
    is_local = is_one_machine = True
    shares_disk = True

    def __init__(
        self, session: LocalSession | None = None, door: Door | None = None, *,
        in_turn: AbstractContextManager[Any] = _ONE_TASK,
    ) -> None:
        self._session = session or LocalSession()
        self._door: Door = door or WorkerDoor()
        self._in_turn = in_turn
        self._cancelled = False

    @property
    def session(self) -> LocalSession:
        """What makes DataFrames."""
        return self._session

    def run_batch(
        self,
        plan: Plan,
        settings: Settings,
        sources: Mapping[str, Any],
        schemas: Mapping[int, bytes],
        title: str,
    ) -> LocalRows:
        """Run a plan to its end."""
        del title
        self._cancelled = False
        first, *later = tasks_of(plan, settings, schemas)
        run = self._door.superstep

        def work() -> list[pa.RecordBatch]:
            parts = first_parts(plan, first)
            made: list[pa.RecordBatch] = []
            for shard in range(plan.shards if parts.shards is not None else 0):
                assert parts.shards is not None
                made += self._task(run(parts.shards, shard, ()))
            for channel, task in parts.fed.items():
                frame = _bounded(frame_at(plan, channel, sources))
                made += self._task(run(task, 0, frame.batches()))
            for task in later:
                boxes = dealt(made, plan.shards, by=sorted_by(plan, task))
                made = [
                    batch
                    for shard, box in enumerate(boxes)
                    for batch in self._task(run(task, shard, _let_go(box)))
                ]
            return made

        return LocalRows(self._session, work)

    def prepare_epochs(self, shards: int) -> None:
        """Begin anew, if an earlier run was cancelled."""
        del shards
        self._cancelled = False

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str, layout: Layout = Layout.STAGES,
    ) -> LocalRows:
        """Run one epoch."""
        del title
        run = self._door.epoch
        links = links_of(tasks, whole=whole, feeding=epoch.feeding)
        later = list(zip(tasks.later, tasks.sorted, strict=True))

        def on_all(blob: bytes, boxes: list[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
            return [
                batch
                for shard, box in enumerate(boxes)
                for batch in self._task(run(blob, epoch, shard, _let_go(box)))
            ]

        def at_once() -> list[pa.RecordBatch]:
            rows = () if frame is None else _bounded(frame).batches()
            return self._task(self._door.whole_epoch(links, epoch, shards, rows)) if links else []

        def work() -> list[pa.RecordBatch]:
            nothing: list[list[pa.RecordBatch]] = [[] for _ in range(shards)]
            if frame is not None:
                assert epoch.feeding is not None
                rows = _bounded(frame).batches()
                made = self._task(run(tasks.fed[epoch.feeding], epoch, 0, rows))
            elif whole and tasks.first is not None:
                made = on_all(tasks.first, nothing)
            elif later:
                made = on_all(later.pop(0)[0], nothing)
            else:
                made = []
            for blob, by in later:
                made = on_all(blob, dealt(made, shards, by=by))
            return made

        return LocalRows(self._session, work if layout is Layout.STAGES else at_once)

    def feeds(self, options: StreamOptions, wake: Callable[[], None]) -> Feeds:
        """Give what brings the batches of scripted streams."""
        return scripted_feeds(options, wake)

    def input_of(self, frame: Any) -> str:
        """Say what a scripted stream is: its columns, as it has no address."""
        return f"ScriptedStream[{selected(frame).stream.schema.simpleString()}]"

    def check_checkpoint(self, location: str, *, feeds: bool) -> None:
        """Logs of scripted streams can be wherever a checkpoint can."""

    def end_stages(self, run: str, confirmed: tuple[str, ...]) -> None:
        """Run the callbacks that still wait, and tear the stages down."""
        end_run(run, confirmed)

    def watching(self, plan: Plan, style: str) -> AbstractContextManager[None]:
        """Show nothing: a test looks at what comes out."""
        del plan, style
        return nullcontext()

    def show_log(self) -> None:
        """There is no other log."""

    def cancel(self) -> None:
        """Start no more tasks; one that runs is not interrupted."""
        self._cancelled = True

    def close(self) -> None:
        """Nothing is held."""

    def _task(self, made: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if self._cancelled:
            msg = "the run was cancelled"
            raise SessionError(msg)
        with self._in_turn, _reported_once():
            return list(made)


def dealt(
    made: Iterable[pa.RecordBatch], shards: int, *, by: Sequence[str] = ()
) -> list[list[pa.RecordBatch]]:
    """Give each shard its rows, as the exchange does.

    Args:
        made: rows of super tuples.
        shards: how many there are.
        by: the columns by which the rows of a shard are sorted, as `rank`.
    """
    boxes: list[list[pa.RecordBatch]] = [[] for _ in range(shards)]
    for batch in made:
        where = batch.column("shard").to_pylist()
        for shard in sorted(set(where)):
            if not 0 <= shard < shards:
                channel = batch.column("channel").to_pylist()[where.index(shard)]
                msg = f"channel {channel} sent a row to shard {shard}; there are {shards}"
                raise TransportError(msg)
            mine = [i for i, found in enumerate(where) if found == shard]
            boxes[shard].append(batch if len(mine) == len(where) else batch.take(pa.array(mine)))
    return [_sorted(box, by) for box in boxes] if by else boxes


def _sorted(box: list[pa.RecordBatch], by: Sequence[str]) -> list[pa.RecordBatch]:
    """Sort rows by columns; equal ones stay as they came."""
    if not box:
        return box
    table = pa.Table.from_batches(box)
    keys = list(zip(*(table.column(name).to_pylist() for name in by), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return list(table.take(pa.array(order, pa.int64())).combine_chunks().to_batches())


def _let_go(box: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give batches and let go of each, so that input and output are not both held to the end."""
    box.reverse()
    while box:
        yield box.pop()


def _bounded(frame: Any) -> LocalFrame:
    if not isinstance(frame, LocalFrame):
        msg = (
            f"a {type(frame).__name__} of {type(frame).__module__} cannot be read without Spark; "
            "make DataFrames with headrace.testing.LocalSession"
        )
        raise SessionError(msg)
    return frame


@contextmanager
def _reported_once() -> Iterator[None]:
    """Keep what user code logs from this process's handlers: the task reports it to the driver."""

    def others(record: logging.LogRecord) -> bool:
        return record.threadName != _STAGES

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(others)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(others)
