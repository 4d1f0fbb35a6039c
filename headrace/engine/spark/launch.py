"""Turns a plan into one linear Spark plan: a task per shard and superstep, an exchange between.

Takes a plan and a session, gives a lazy DataFrame whose rows are the reports. Starts no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from headrace.engine.scans.choose import Partitions, partitions_of, scan_of
from headrace.engine.spark.doors import is_connect
from headrace.engine.tasks import EpochTasks, first_parts, frame_at, sorted_by, tasks_of
from headrace.plan.scans import Scan
from headrace.plan.settings import ColumnsMode, Settings
from headrace.plan.supersteps import Plan
from headrace.worker.entry import (
    SPARK_SCHEMA,
    Epoch,
    SuperstepTask,
    end_run,
    from_text,
    read_output,
    read_scan,
    run_epoch,
    run_superstep,
)

#: The property of a job that tells its tasks of their epoch, where one plan serves many epochs.
EPOCH_PROPERTY = "headrace.epoch"
#: The longest text that travels as a property of a job: listeners and the event log get the
#: properties of a job and of each of its stages. A longer one travels in the plan.
MAX_PROPERTY_CHARS = 32 << 10


@dataclass(frozen=True, slots=True)
class Reads:
    """What the tasks of an epoch read themselves."""

    channel: int  # that is fed
    scan: Scan
    tasks: int


@cache
def rows_type() -> Any:
    """The schema of super tuples, read once: Spark would parse its words at every use."""
    kinds = {"int": IntegerType(), "bigint": LongType(), "binary": BinaryType()}
    columns = (column.split() for column in SPARK_SCHEMA.split(", "))
    return StructType([StructField(name, kinds[kind], False) for name, kind, *_ in columns])


def known(frame: Any, columns: Any) -> Any:
    """Tell a DataFrame its columns: one of Spark Connect would ask the server for them."""
    if is_connect(frame):
        frame._cached_schema = columns  # noqa: SLF001 (where it keeps the server's answer)
    return frame


@cache
def numbers_type() -> Any:
    """The schema of numbers."""
    return StructType([StructField("id", LongType(), False)])


def numbers(session: Any, count: int) -> Any:
    """Give a frame of so many numbers, each in a partition of its own."""
    return known(session.range(0, count, 1, max(1, count)), numbers_type())


def exchanged(rows: Any, shards: int, sorted_by: tuple[str, ...], executors: Any = None) -> Any:
    """Bring every super tuple to its shard.

    Args:
        rows: super tuples.
        shards: how many there are.
        sorted_by: by which columns a shard's rows are sorted.
        executors: what brings a shard back to the executor that has its store.
    """
    rows = rows.repartitionById(shards, "shard")
    if executors is not None:
        rows = rows.join(executors.hint("shuffle_hash"), "shard")
    if sorted_by:
        rows = rows.sortWithinPartitions(*sorted_by)
    return known(rows, rows_type())


def launch(
    plan: Plan,
    session: Any,
    settings: Settings,
    sources: Mapping[str, Any] = MappingProxyType({}),
    schemas: Mapping[int, bytes] = MappingProxyType({}),
) -> Any:
    """Build the chain of supersteps.

    Args:
        plan: what to run.
        session: where to run it.
        settings: limits for the tasks.
        sources: the DataFrames that the plan reads, by the names of their transforms.
        schemas: for each output channel, its Arrow schema.
    """
    tasks = tasks_of(plan, settings, schemas)
    frame = _first(plan, session, tasks[0], sources)
    for task in tasks[1:]:
        frame = exchanged(frame, plan.shards, sorted_by(plan, task))
        frame = frame.mapInArrow(on_shard(task), rows_type())
    return frame


def _first(plan: Plan, session: Any, task: SuperstepTask, sources: Mapping[str, Any]) -> Any:
    """Build superstep 0: on a partition per shard, and on the partitions of every DataFrame."""
    parts = first_parts(plan, task)
    here = parts.shards
    if here is None and not parts.fed:
        here = task
    if here is not None:
        frame = numbers(session, plan.shards).mapInArrow(on_shard(here), rows_type())
    else:
        frame = no_rows(session)  # the leftmost frame of a union decides on the session
    for index, part in parts.fed.items():
        source = frame_at(plan, index, sources)
        scan = None if task.settings.columns is ColumnsMode.OFF else scan_of(source)
        frame = frame.union(fed(source, scan, session, on_shard(part)))
    return frame


def fed(
    frame: Any, scan: Scan | None, session: Any,
    function: Callable[[Iterable[Any]], Iterator[Any]], tasks: int | None = None,
) -> Any:
    """Give what a function for `mapInArrow` makes of a DataFrame, task by task.

    Args:
        frame: the DataFrame.
        scan: of which files or topics its rows are, if they are no more; workers then read them.
        session: where tasks run that are fed nothing by Spark.
        function: given batches of a partition.
        tasks: in how many tasks; if not given, in one for each partition.
    """
    partitions = None if scan is None else partitions_of(frame, scan)
    if scan is None or partitions is None:
        rows = frame if tasks is None else frame.coalesce(tasks)
        return rows.mapInArrow(function, rows_type())
    numbered = numbers(session, len(partitions))
    if tasks is not None:
        numbered = known(numbered.coalesce(tasks), numbers_type())
    return numbered.mapInArrow(reading(scan, partitions, function), rows_type())


def reading(
    scan: Scan, partitions: Partitions, function: Callable[[Iterable[Any]], Iterator[Any]]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function that is fed the number of a partition, and reads its rows."""

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        given = [number for batch in batches for number in batch.column(0).to_pylist()]
        return function(read_scan(scan, [part for at in given for part in partitions[at]]))

    return read


def launch_epoch(
    tasks: EpochTasks,
    session: Any,
    epoch: Epoch | None,
    shards: int,
    frame: Any | None,
    whole: bool,
    sticky: bool = False,
    scan: Scan | None = None,
    reads: Reads | None = None,
) -> Any:
    """Build the chain of supersteps for one epoch.

    Args:
        tasks: the plan's tasks.
        session: where to run them, if no DataFrame feeds the epoch.
        epoch: what they must know; None: the property of their job says it, so that the same plan
            serves for the next epoch too.
        shards: how many there are.
        frame: the rows of this epoch, if a DataFrame feeds it.
        whole: begin with superstep 0; else nothing is to be done there.
        sticky: bring a shard back to the executor that has its store.
        scan: of which files or topics the rows are, if they are no more.
        reads: what tasks read themselves, without a DataFrame; the epoch says which parts of it.
    """
    later = list(zip(tasks.later, tasks.sorted, strict=True))
    if frame is not None:
        assert epoch is not None
        assert epoch.feeding is not None
        function = in_epoch(tasks.fed[epoch.feeding], epoch, fed=True)
        rows = fed(frame, scan if tasks.columns else None, session, function)
    elif reads is not None:
        function = in_epoch(tasks.fed[reads.channel], epoch, fed=True, scan=reads.scan)
        rows = numbers(session, reads.tasks).mapInArrow(function, rows_type())
    else:
        rows = numbers(session, shards)
        if whole and tasks.first is not None:
            blob = tasks.first
        elif later:
            blob, _ = later.pop(0)
            if sticky:
                rows = preferred_executors(session, shards)
        else:
            return no_rows(session)
        rows = rows.mapInArrow(in_epoch(blob, epoch, empty=True), rows_type())
    executors = preferred_executors(session, shards) if sticky else None
    for blob, wanted in later:
        rows = exchanged(rows, shards, wanted, executors)
        rows = rows.mapInArrow(in_epoch(blob, epoch), rows_type())
    return rows


def preferred_executors(session: Any, shards: int) -> Any:
    """Give a frame of one row per shard; a shard is preferred where its partition is cached.

    A task that joins with it is sent to the executor that has the partition: Spark knows no other
    way to bring a shuffled partition back to where it was. The plan is the same in every session,
    so that all of them find the cached rows.
    """
    rows = session.range(0, shards, 1, shards).selectExpr("CAST(id AS INT) AS shard")
    return rows.repartitionById(shards, "shard")


def in_epoch(
    blob: bytes, epoch: Epoch | None, *, fed: bool = False, empty: bool = False,
    scan: Scan | None = None,
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function for `mapInArrow`: one epoch of one superstep.

    Args:
        blob: the superstep's task.
        epoch: what it must know; None: its job's property says it.
        fed: a DataFrame's partitions come in; they are no shards.
        empty: what comes in means nothing.
        scan: how the task reads its parts, which the epoch names; nothing comes in.
    """

    def superstep(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        shard = 0 if fed else partition
        known = epoch
        if known is None:
            # By the job, not by a file or a variable: a task of an attempt that was given up and
            # goes on somewhere must never take itself for one of the next attempt.
            assert context is not None
            known = from_text(context.getLocalProperty(EPOCH_PROPERTY))
        if scan is not None:
            parts = known.parts[partition] if partition < len(known.parts) else ()
            batches = chain(_drain(batches), read_scan(scan, parts))
        elif empty:
            batches = _drain(batches)
        return run_epoch(blob, known, shard, batches, partition)

    return superstep


def end_stages(session: Any, run: str, confirmed: tuple[str, ...], processes: int) -> None:
    """Run the callbacks that still wait in the workers, and tear the stages down."""

    def call(batches: Iterable[Any]) -> Iterator[Any]:
        end_run(run, confirmed)
        return _drain(batches)

    numbers(session, processes).mapInArrow(call, numbers_type()).collect()


def no_rows(session: Any) -> Any:
    """Give a frame of no super tuples. Spark's optimiser takes it out of a union again."""
    return session.range(1).where("false").selectExpr(
        "0 AS shard", "0 AS rank", "0 AS channel", "0 AS kind", "0L AS seq", "0L AS elements",
        "X'' AS payload", "X'' AS numbers",
    )


def output_frame(
    session: Any, rows: Any, channel: int, columns: Any, schema: bytes, order_bytes: int = 0
) -> Any:
    """Give what was sent to an output channel, as a DataFrame of the given session.

    Args:
        session: of the DataFrame.
        rows: the super tuples of a run.
        channel: which one.
        columns: of the DataFrame.
        schema: the same, as Arrow has it.
        order_bytes: of an ordered channel, of each number; its rows are merged in one task.
    """
    mine = no_rows(session).union(rows.where(f"channel = {channel}"))
    if order_bytes:
        mine = mine.repartition(1).sortWithinPartitions("numbers")

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        return read_output(schema, batches, order_bytes)

    return mine.mapInArrow(read, columns)


def on_shard(task: SuperstepTask) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function for `mapInArrow`; the partition's number is the shard's."""

    def superstep(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        return run_superstep(task, context.partitionId() if context else 0, _read(task, batches))

    return superstep


def _read(task: SuperstepTask, batches: Iterable[Any]) -> Iterable[Any]:
    """The first superstep is fed row numbers, which mean nothing, or the rows of a DataFrame."""
    if task.superstep.index or task.source is not None:
        return batches
    return _drain(batches)


def _drain(batches: Iterable[Any]) -> Iterator[Any]:
    for _ in batches:
        pass
    return iter(())
