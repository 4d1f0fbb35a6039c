"""Decides what each task of a plan must know: one for each superstep, and one for each source.

Pure: takes a plan and settings, gives tasks. Where they run, a `Host` decides.
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from headrace.errors import PlanError
from headrace.plan.ids import StageId
from headrace.plan.settings import ColumnsMode, Settings
from headrace.plan.sources import Frame
from headrace.plan.supersteps import Channel, ChannelKind, Plan
from headrace.worker.entry import Link, SuperstepTask

#: Depth given to channels that no stage reads: past the last superstep.
NO_READER = 1 << 30


def tasks_of(
    plan: Plan,
    settings: Settings,
    schemas: Mapping[int, bytes] = MappingProxyType({}),
    direct: tuple[int, ...] = (),
) -> list[SuperstepTask]:
    """Give what each superstep's tasks must know.

    Args:
        plan: what is run.
        settings: limits for the tasks.
        schemas: for each output channel, its Arrow schema.
        direct: the output channels whose files the workers write themselves.
    """
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
            schemas=tuple(schemas.items()),
            direct=direct,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstParts:
    """Superstep 0, cut by what feeds it: each part has the stages that its source reaches.

    A partition of a DataFrame is no shard, so impulses fire on the shards alone.
    """

    shards: SuperstepTask | None  # what no DataFrame feeds; None: there is nothing of the kind
    fed: Mapping[int, SuperstepTask]  # by the channel that a DataFrame feeds


def first_parts(plan: Plan, task: SuperstepTask) -> FirstParts:
    """Cut the task of superstep 0."""
    here = {stage.stage_id for stage in task.superstep.stages}
    starts = [
        (index, channel)
        for index, channel in enumerate(plan.channels)
        if channel.kind is ChannelKind.SOURCE and here.issuperset(channel.target_stages)
    ]
    fed = {index: reached(plan, c) for index, c in starts if isinstance(c.source, Frame)}
    others = here.difference(*fed.values()).union(
        *(reached(plan, c) for index, c in starts if index not in fed)
    )
    return FirstParts(
        shards=only(task, others) if others else None,
        fed={
            index: replace(only(task, stages), source=index) for index, stages in fed.items()
        },
    )


def frame_at(plan: Plan, channel: int, sources: Mapping[str, Any]) -> Any:
    """Find the DataFrame that feeds a channel among those at hand, by the names of their reads."""
    source = plan.channels[channel].source
    if not isinstance(source, Frame) or source.name not in sources:
        name = source.name if isinstance(source, Frame) else plan.channels[channel].label
        msg = f"{name}: its DataFrame is not at hand; run the pipeline, not its proto"
        raise PlanError(msg)
    return sources[source.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTasks:
    """The tasks of a streaming plan, pickled once: workers unpickle them once."""

    first: bytes | None  # superstep 0 on the shards, without what DataFrames feed
    fed: Mapping[int, bytes]  # superstep 0 on a DataFrame, by the channel it feeds
    later: tuple[bytes, ...]  # supersteps 1 and on
    sorted: tuple[tuple[str, ...], ...]  # by which columns the rows of these must be sorted
    columns: bool = True  # whether rows may come as columns

    def any_without_rows(self, *, whole: bool) -> bool:
        """Whether an epoch that nothing feeds has tasks; `whole`: with superstep 0."""
        return bool(self.later) or (whole and self.first is not None)


def epoch_tasks(
    plan: Plan,
    settings: Settings,
    schemas: Mapping[int, bytes] = MappingProxyType({}),
    direct: tuple[int, ...] = (),
) -> EpochTasks:
    """Prepare the tasks of a streaming plan; workers write the `direct` channels themselves."""
    tasks = tasks_of(plan, settings, schemas, direct)
    parts = first_parts(plan, tasks[0])
    return EpochTasks(
        first=None if parts.shards is None else pickle.dumps(parts.shards),
        fed={index: pickle.dumps(task) for index, task in parts.fed.items()},
        later=tuple(map(pickle.dumps, tasks[1:])),
        sorted=tuple(sorted_by(plan, task) for task in tasks[1:]),
        columns=settings.columns is not ColumnsMode.OFF,
    )


def links_of(
    tasks: EpochTasks, *, whole: bool, feeding: int | None = None
) -> tuple[Link, ...]:
    """Give the supersteps of an epoch that has all of them in one task.

    Args:
        tasks: the plan's.
        whole: begin with superstep 0; else nothing is to be done there.
        feeding: the channel that a DataFrame feeds, if one does.
    """
    later = tuple(zip(tasks.later, tasks.sorted, strict=True))
    if feeding is not None:
        return ((tasks.fed[feeding], ()), *later)
    return ((tasks.first, ()), *later) if whole and tasks.first is not None else later


def reached(plan: Plan, source: Channel) -> set[StageId]:
    """Give the stages that a source feeds within its own superstep."""
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


def only(task: SuperstepTask, wanted: Container[StageId]) -> SuperstepTask:
    """Give the task for some stages of its superstep alone."""
    pairs = zip(task.superstep.stages, task.stage_numbers, strict=True)
    kept = [(stage, number) for stage, number in pairs if stage.stage_id in wanted]
    return replace(
        task,
        superstep=replace(task.superstep, stages=tuple(stage for stage, _ in kept)),
        stage_numbers=tuple(number for _, number in kept),
    )


def sorted_by(plan: Plan, task: SuperstepTask) -> tuple[str, ...]:
    """Give the columns by which the rows of a superstep must be sorted, if any."""
    here = task.superstep.index
    numbered = any(
        channel.order_bytes and channel.kind is not ChannelKind.LOCAL and depth == here
        for channel, depth in zip(plan.channels, task.depths, strict=True)
    )
    if numbered:
        return ("rank", "numbers")
    return ("rank",) if has_side_inputs(plan, task) else ()


def has_side_inputs(plan: Plan, task: SuperstepTask) -> bool:
    """Whether side inputs are read in a superstep: its rows must come in the order of ranks."""
    here = task.superstep.index
    return any(
        channel.kind is ChannelKind.BROADCAST and depth == here
        for channel, depth in zip(plan.channels, task.depths, strict=True)
    )
