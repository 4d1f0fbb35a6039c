"""What a pipeline looks like to whoever watches it: supersteps, stages, exchanges, names.

Takes a plan, or what a checkpoint says of its pipeline; gives frozen data with the names that
people know. Knows nothing of pages and servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.engine.checkpoint.identity import Description
from headrace.plan.explain import (
    collection_name,
    exchange_title,
    ordered_operators,
    ordered_stages,
)
from headrace.plan.sources import Frame
from headrace.plan.supersteps import ChannelKind, Plan, Stage

_GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNode:
    """One stage."""

    number: int  # its place in the plan
    superstep: int
    name: str  # the step that people would call it by
    steps: tuple[str, ...]  # all that run in it, as the user has named them
    side_inputs: tuple[str, ...] = ()  # the steps that make what it looks up
    cells: tuple[str, ...] = ()  # its state cells, and its groupings
    unbounded: bool = False  # time alone never frees its state: it lies in the global window


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelNode:
    """One collection on its way between stages."""

    number: int
    kind: str
    title: str  # how its elements travel, in words
    name: str  # of the grouping or sink; else of what it carries; may be empty
    sources: tuple[int, ...] = ()  # the stages that write it
    targets: tuple[int, ...] = ()  # those that read it
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A pipeline."""

    name: str
    shards: int
    stages: Mapping[int, StageNode] = field(default_factory=dict)
    channels: Mapping[int, ChannelNode] = field(default_factory=dict)

    def stage(self, number: int) -> str:
        """Give what people would call a stage."""
        found = self.stages.get(number)
        return found.name if found is not None else f"stage {number}"

    def channel(self, number: int) -> str:
        """Give what people would call a channel: its grouping or the step behind it."""
        found = self.channels.get(number)
        if found is None:
            return f"channel {number}"
        return found.name or ", ".join(self.stage(target) for target in found.targets)

    def of_superstep(self, index: int) -> list[StageNode]:
        """Give the stages of a superstep."""
        return [stage for stage in self.stages.values() if stage.superstep == index]


def outer(name: str) -> str:
    """Give the outermost part of a step's name, which the user has chosen.

    >>> outer("Join/CoGroupByKeyImpl/GroupByKey")
    'Join'
    """
    return name.partition("/")[0]


def graph_of(plan: Plan) -> Graph:
    """Draw a plan."""
    numbers = {stage.stage_id: number for number, stage in enumerate(plan.stages())}
    order = [stage for stages in ordered_stages(plan) for stage in stages]
    makers = {
        index: [outer(o) for s in plan.stages() if s.stage_id in channel.source_stages
                for o in s.operators][-1:]
        for index, channel in enumerate(plan.channels)
    }
    stages = {
        numbers[stage.stage_id]: _node(plan, stage, numbers[stage.stage_id], makers)
        for stage in order
    }
    channels = {
        index: ChannelNode(
            number=index,
            kind=channel.kind.value,
            title=exchange_title(channel),
            name=outer(collection_name(channel))
            if channel.groups or channel.kind in (ChannelKind.OUTPUT, ChannelKind.SOURCE)
            else "",
            sources=tuple(sorted(numbers[s] for s in channel.source_stages)),
            targets=tuple(sorted(numbers[s] for s in channel.target_stages)),
            reason=channel.reason,
        )
        for index, channel in enumerate(plan.channels)
    }
    return Graph(name=plan.name, shards=plan.shards, stages=stages, channels=channels)


def _node(plan: Plan, stage: Stage, number: int, makers: Mapping[int, list[str]]) -> StageNode:
    steps = tuple(dict.fromkeys(outer(o) for o in ordered_operators(plan, stage)))
    facts = plan.facts
    read = [plan.channels[port.channel] for port in stage.reads]
    grouped = [outer(collection_name(channel)) for channel in read if channel.groups]
    cells = [name for name in facts.state.get(stage.stage_id, {}) if name.startswith("cell ")]
    texts = [facts.coders.get(channel.coder_id, "") for channel in read] if cells else []
    windows = [
        facts.words.get(channel.windowing_id, {}).get("windows", "")
        for channel in read
        if channel.groups
    ]
    name = grouped[0] if grouped else (steps[0] if steps else stage.name)
    ends = [outer(plan.channels[p.channel].label) for p in stage.writes
            if plan.channels[p.channel].kind is ChannelKind.OUTPUT]
    begins = [outer(c.label) for c in read if isinstance(c.source, Frame)]
    steps = tuple(dict.fromkeys((*begins, *grouped, *steps, *ends)))
    return StageNode(
        number=number, superstep=stage.superstep, name=name, steps=steps,
        side_inputs=tuple(
            dict.fromkeys(
                maker for side in stage.side_inputs for maker in makers.get(side.channel, ())
            )
        ),
        cells=(*cells, *(f"groups of {group}" for group in grouped)),
        unbounded=any(_GLOBAL in text for text in (*texts, *windows)),
    )


def graph_of_checkpoint(described: Description) -> Graph:
    """Draw what a checkpoint says of its pipeline; it does not say who writes which channel."""
    stages = {
        stage.number: StageNode(
            number=stage.number, superstep=stage.superstep, name=outer(stage.name),
            steps=_outermost(stage.operators),
            cells=tuple(name for name in stage.state if name.startswith("cell ")),
        )
        for stage in described.stages
    }
    channels = {
        number: ChannelNode(
            number=number, kind=channel.kind, title=channel.kind, name=outer(channel.label)
        )
        for number, channel in enumerate(described.channels)
    }
    return Graph(
        name=described.name, shards=described.shards, stages=stages, channels=channels
    )


def _outermost(operators: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(outer(operator) for operator in operators))
