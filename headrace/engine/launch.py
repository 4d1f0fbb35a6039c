"""Turns a plan into one linear Spark plan: a task per shard and superstep, an exchange between.

Takes a plan and a session, gives a lazy DataFrame whose rows are the reports. Starts no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.plan.settings import Settings
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.worker.entry import SuperstepTask, run_superstep
from headrace.worker.frames import SPARK_SCHEMA

#: Depth given to channels that no stage reads: past the last superstep.
NO_READER = 1 << 30


def tasks_of(plan: Plan, settings: Settings) -> list[SuperstepTask]:
    """Give what each superstep's tasks must know."""
    depth = {stage.stage_id: stage.superstep for stage in plan.stages()}
    number = {stage.stage_id: i for i, stage in enumerate(plan.stages())}
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
        )
        for superstep in plan.supersteps
    ]


def launch(plan: Plan, session: Any, settings: Settings) -> Any:
    """Build the chain of supersteps."""
    tasks = tasks_of(plan, settings)
    frame = session.range(0, plan.shards, 1, plan.shards)
    frame = frame.mapInArrow(on_shard(tasks[0]), SPARK_SCHEMA)
    for task in tasks[1:]:
        frame = frame.repartitionById(plan.shards, "shard")
        if _has_side_inputs(plan, task):
            frame = frame.sortWithinPartitions("rank")
        frame = frame.mapInArrow(on_shard(task), SPARK_SCHEMA)
    return frame


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
    """The first superstep is fed row numbers, which mean nothing; drain them."""
    if task.superstep.index:
        return batches
    return _drain(batches)


def _drain(batches: Iterable[Any]) -> Iterator[Any]:
    for _ in batches:
        pass
    return iter(())
