"""Turns a plan into one linear Spark plan: a task per shard and superstep, an exchange between.

Takes a plan and a session, gives a lazy DataFrame whose rows are the reports. Starts no job.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from headrace.errors import PlanError
from headrace.plan.ids import StageId
from headrace.plan.settings import Settings
from headrace.plan.sources import Frame
from headrace.plan.supersteps import Channel, ChannelKind, Plan
from headrace.worker.entry import (
    SPARK_SCHEMA,
    Epoch,
    SuperstepTask,
    end_run,
    read_output,
    run_epoch,
    run_superstep,
)

#: Depth given to channels that no stage reads: past the last superstep.
NO_READER = 1 << 30


@cache
def rows_type() -> Any:
    """The schema of super tuples, read once: Spark would parse its words at every use."""
    kinds = {"int": IntegerType(), "bigint": LongType(), "binary": BinaryType()}
    columns = (column.split() for column in SPARK_SCHEMA.split(", "))
    return StructType([StructField(name, kinds[kind], False) for name, kind, *_ in columns])


def tasks_of(plan: Plan, settings: Settings) -> list[SuperstepTask]:
    """Give what each superstep's tasks must know."""
    depth = {stage.stage_id: stage.superstep for stage in plan.stages()}
    number = {stage.stage_id: i for i, stage in enumerate(plan.stages())}
    roots, pulses = _roots(plan), _pulses(plan)
    depths = tuple(
        depth[channel.target_stages[0]] if channel.target_stages else NO_READER
        for channel in plan.channels
    )
    return [
        SuperstepTask(
            superstep=superstep,
            depths=depths,
            channels=plan.channels,
            components=plan.components,
            shards=plan.shards,
            settings=settings,
            stage_numbers=tuple(number[s.stage_id] for s in superstep.stages),
            roots=roots,
            pulses=pulses,
        )
        for superstep in plan.supersteps
    ]


def _roots(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """For each channel, the sources that feed it by way of superstep 0 alone.

    Nothing there holds a watermark back, so a reader's watermark is that of the sources.
    """
    first = {stage.stage_id: stage for stage in plan.supersteps[0].stages}

    def above(index: int, seen: frozenset[int]) -> set[int]:
        channel = plan.channels[index]
        if channel.kind is ChannelKind.SOURCE:
            return {index}
        found: set[int] = set()
        for stage_id in channel.source_stages:
            for port in first[stage_id].reads if stage_id in first else ():
                if port.channel not in seen:
                    found |= above(port.channel, seen | {port.channel})
        return found

    return tuple(tuple(sorted(above(i, frozenset({i})))) for i in range(len(plan.channels)))


def _pulses(plan: Plan) -> tuple[int, ...]:
    """For each channel, how many pulses tell its reader that all of an epoch has come."""
    depth = {stage.stage_id: stage.superstep for stage in plan.stages()}
    return tuple(
        0
        if channel.kind is ChannelKind.LOCAL
        else plan.shards * len({depth[s] for s in channel.source_stages if depth[s] > 0})
        for channel in plan.channels
    )


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
    tasks = [replace(task, schemas=tuple(schemas.items())) for task in tasks_of(plan, settings)]
    frame = _first(plan, session, tasks[0], sources)
    for task in tasks[1:]:
        frame = frame.repartitionById(plan.shards, "shard")
        if _has_side_inputs(plan, task):
            frame = frame.sortWithinPartitions("rank")
        frame = frame.mapInArrow(on_shard(task), rows_type())
    return frame


def _first(
    plan: Plan, session: Any, task: SuperstepTask, sources: Mapping[str, Any]
) -> Any:
    """Build superstep 0: on a partition per shard, and on the partitions of every DataFrame.

    Each part runs only the stages that its source feeds. A partition of a DataFrame is no shard, so
    impulses fire in the first part alone.
    """
    here = {stage.stage_id for stage in task.superstep.stages}
    starts = [
        (index, channel)
        for index, channel in enumerate(plan.channels)
        if channel.kind is ChannelKind.SOURCE and here.issuperset(channel.target_stages)
    ]
    fed = [(index, c, c.source) for index, c in starts if isinstance(c.source, Frame)]
    reached = {index: _reached(plan, channel) for index, channel, _ in fed}
    others = here.difference(*reached.values()).union(
        *(_reached(plan, c) for index, c in starts if index not in reached)
    )
    if others or not fed:
        frame = session.range(0, plan.shards, 1, plan.shards)
        frame = frame.mapInArrow(on_shard(_only(task, others)), rows_type())
    else:
        frame = no_rows(session)  # the leftmost frame of a union decides on the session
    for index, _, source in fed:
        if source.name not in sources:
            msg = f"{source.name}: its DataFrame is not at hand; run the pipeline, not its proto"
            raise PlanError(msg)
        part = replace(_only(task, reached[index]), source=index)
        frame = frame.union(sources[source.name].mapInArrow(on_shard(part), rows_type()))
    return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTasks:
    """The tasks of a streaming plan, pickled once: workers unpickle them once."""

    first: bytes | None  # superstep 0 on the shards, without what DataFrames feed
    fed: Mapping[int, bytes]  # superstep 0 on a DataFrame, by the channel it feeds
    later: tuple[bytes, ...]  # supersteps 1 and on
    sorted: tuple[bool, ...]  # whether the rows of these must come in the order of their ranks


def epoch_tasks(
    plan: Plan,
    settings: Settings,
    schemas: Mapping[int, bytes] = MappingProxyType({}),
    direct: tuple[int, ...] = (),
) -> EpochTasks:
    """Prepare the tasks of a streaming plan; workers write the `direct` channels themselves."""
    tasks = [
        replace(task, schemas=tuple(schemas.items()), direct=direct)
        for task in tasks_of(plan, settings)
    ]
    here = {stage.stage_id for stage in tasks[0].superstep.stages}
    starts = [
        (index, channel)
        for index, channel in enumerate(plan.channels)
        if channel.kind is ChannelKind.SOURCE and here.issuperset(channel.target_stages)
    ]
    fed = {
        index: _reached(plan, channel)
        for index, channel in starts
        if isinstance(channel.source, Frame)
    }
    others = here.difference(*fed.values()).union(
        *(_reached(plan, c) for index, c in starts if index not in fed)
    )
    return EpochTasks(
        first=pickle.dumps(_only(tasks[0], others)) if others else None,
        fed={
            index: pickle.dumps(replace(_only(tasks[0], reached), source=index))
            for index, reached in fed.items()
        },
        later=tuple(map(pickle.dumps, tasks[1:])),
        sorted=tuple(_has_side_inputs(plan, task) for task in tasks[1:]),
    )


def launch_epoch(
    tasks: EpochTasks,
    session: Any,
    epoch: Epoch,
    shards: int,
    frame: Any | None,
    whole: bool,
    sticky: bool = False,
) -> Any:
    """Build the chain of supersteps for one epoch.

    Args:
        tasks: the plan's tasks.
        session: where to run them, if no DataFrame feeds the epoch.
        epoch: what they must know.
        shards: how many there are.
        frame: the rows of this epoch, if a DataFrame feeds it.
        whole: begin with superstep 0; else nothing is to be done there.
        sticky: bring a shard back to the executor that has its store.
    """
    later = list(zip(tasks.later, tasks.sorted, strict=True))
    if frame is not None:
        assert epoch.feeding is not None
        rows = frame.mapInArrow(in_epoch(tasks.fed[epoch.feeding], epoch, fed=True), rows_type())
    else:
        rows = session.range(0, shards, 1, shards)
        if whole and tasks.first is not None:
            blob = tasks.first
        elif later:
            blob, _ = later.pop(0)
            if sticky:
                rows = homes(session, shards)
        else:
            return no_rows(session)
        rows = rows.mapInArrow(in_epoch(blob, epoch, empty=True), rows_type())
    for blob, ranked in later:
        rows = rows.repartitionById(shards, "shard")
        if sticky:
            rows = rows.join(homes(session, shards).hint("shuffle_hash"), "shard")
        if ranked:
            rows = rows.sortWithinPartitions("rank")
        rows = rows.mapInArrow(in_epoch(blob, epoch), rows_type())
    return rows


def homes(session: Any, shards: int) -> Any:
    """Give a frame of one row per shard; where its partitions are cached, their shards are at home.

    A task that joins with it is sent to the executor that has the partition: Spark knows no other
    way to bring a shuffled partition back to where it was. The plan is the same in every session,
    so that all of them find the cached rows.
    """
    rows = session.range(0, shards, 1, shards).selectExpr("CAST(id AS INT) AS shard")
    return rows.repartitionById(shards, "shard")


def in_epoch(
    blob: bytes, epoch: Epoch, *, fed: bool = False, empty: bool = False
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function for `mapInArrow`: one epoch of one superstep.

    Args:
        blob: the superstep's task.
        epoch: what it must know.
        fed: a DataFrame's partitions come in; they are no shards.
        empty: what comes in means nothing.
    """

    def superstep(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        shard = 0 if fed or context is None else context.partitionId()
        return run_epoch(blob, epoch, shard, _drain(batches) if empty else batches)

    return superstep


def end_stages(session: Any, run: str, confirmed: tuple[str, ...], processes: int) -> None:
    """Run the callbacks that still wait in the workers, and tear the stages down."""

    def call(batches: Iterable[Any]) -> Iterator[Any]:
        end_run(run, confirmed)
        return _drain(batches)

    session.range(0, processes, 1, processes).mapInArrow(call, "id bigint").collect()


def no_rows(session: Any) -> Any:
    """Give a frame of no super tuples. Spark's optimiser takes it out of a union again."""
    return session.range(1).where("false").selectExpr(
        "0 AS shard", "0 AS rank", "0 AS channel", "0 AS kind", "0L AS seq", "0L AS elements",
        "X'' AS payload",
    )


def _reached(plan: Plan, source: Channel) -> set[StageId]:
    """The stages that a source feeds within its own superstep."""
    found: set[StageId] = set()
    waiting = list(source.target_stages)
    while waiting:
        stage_id = waiting.pop()
        if stage_id in found:
            continue
        found.add(stage_id)
        for channel in plan.channels:
            if channel.kind is ChannelKind.LOCAL and stage_id in channel.source_stages:
                waiting.extend(channel.target_stages)
    return found


def _only(task: SuperstepTask, wanted: Container[StageId]) -> SuperstepTask:
    pairs = zip(task.superstep.stages, task.stage_numbers, strict=True)
    kept = [(stage, number) for stage, number in pairs if stage.stage_id in wanted]
    return replace(
        task,
        superstep=replace(task.superstep, stages=tuple(stage for stage, _ in kept)),
        stage_numbers=tuple(number for _, number in kept),
    )


def output_frame(session: Any, rows: Any, channel: int, columns: Any, schema: bytes) -> Any:
    """Give what was sent to an output channel, as a DataFrame of the given session."""
    mine = no_rows(session).union(rows.where(f"channel = {channel}"))

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        return read_output(schema, batches)

    return mine.mapInArrow(read, columns)


def _has_side_inputs(plan: Plan, task: SuperstepTask) -> bool:
    here = task.superstep.index
    return any(
        channel.kind is ChannelKind.BROADCAST and depth == here
        for channel, depth in zip(plan.channels, task.depths, strict=True)
    )


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
