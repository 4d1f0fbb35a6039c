"""The sealed plan: supersteps, their stages, and the channels between them.

Frozen data that compiler, engine, worker and explain share. Knows nothing of Beam or Spark: stages
carry their Beam transforms as opaque bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.errors import PlanError
from headrace.plan.claims import Claims
from headrace.plan.combines import Combined
from headrace.plan.facts import StateFacts
from headrace.plan.ids import ChannelId, OperatorId, StageId
from headrace.plan.joins import GroupStep
from headrace.plan.lowered_steps import LoweredStep
from headrace.plan.operators import Operator
from headrace.plan.order import PortOrder, StageOrder
from headrace.plan.regions import Region
from headrace.plan.scripts import Script
from headrace.plan.slices import Slices
from headrace.plan.sources import Source

#: Which shard gets what is merged for one.
MERGE_SHARD = 0


class ChannelKind(Enum):
    """How elements travel from the stages that write a channel to those that read it."""

    SOURCE = "source"  # nobody writes it: an impulse, or the rows of a DataFrame
    LOCAL = "local"  # same superstep, same shard: handed over in memory
    SPREAD = "spread"  # any shard will do: dealt out in turn
    GROUP = "group"  # to the shard that owns the key, grouped there
    KEYED = "keyed"  # to the shard that owns the key, element by element
    BROADCAST = "broadcast"  # a side input: every shard gets every element
    MERGE = "merge"  # to one shard, in order: what reads it must see everything
    OUTPUT = "output"  # leaves the plan as rows of a DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One collection on its way between stages. Its position in `Plan.channels` is its wire id."""

    channel_id: ChannelId
    kind: ChannelKind
    source_stages: tuple[StageId, ...]  # empty for a source
    target_stages: tuple[StageId, ...]  # empty for an output
    label: str  # the collection's or grouping's name in the pipeline
    reason: str  # why the channel has this kind
    coder_id: str = ""  # windowed coder of the elements; writer and reader use this very one
    windowing_id: str = ""  # windowing strategy, for groupings
    group_by_target: bool = False  # LOCAL channel whose reader groups by key (an elided exchange)
    slices: Slices | None = None  # the grouping keeps one partial per slice, not one per window
    source: Source | None = None  # of a SOURCE channel: what feeds it; None: nothing ever comes
    order_bytes: int = 0  # of each element's order number; 0: elements carry none

    @property
    def groups(self) -> bool:
        """Whether the reader groups the elements by key."""
        return self.kind is ChannelKind.GROUP or self.group_by_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """Where a stage meets a channel."""

    transform_id: str  # the read or write transform inside the stage
    channel: int  # position in `Plan.channels`
    order: PortOrder | None = None  # how order numbers change here; None: there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInput:
    """One side input of one ParDo."""

    transform_id: str
    tag: str
    channel: int
    access_pattern: str  # Beam's URN: iterable or multimap


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Fused operators that run as one bundle."""

    stage_id: StageId
    name: str
    operators: tuple[OperatorId, ...]
    superstep: int
    reads: tuple[Port, ...]
    writes: tuple[Port, ...]
    side_inputs: tuple[SideInput, ...]
    transforms: bytes  # serialised transforms, as a Beam ProcessBundleDescriptor without components
    inputs: tuple[ChannelId, ...] = ()
    outputs: tuple[ChannelId, ...] = ()
    order: StageOrder | None = None  # how order numbers are made here; None: there are none
    claims: tuple[tuple[str, Claims], ...] = ()  # what a run is to check, by transform id
    lowered: tuple[tuple[str, LoweredStep], ...] = ()  # what columns can compute, by transform id
    combines: tuple[tuple[str, Combined], ...] = ()  # the same of combines and their parts
    of_groups: tuple[tuple[str, GroupStep], ...] = ()  # the same of steps that take groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Superstep:
    """All stages at one depth; they run inside one Spark stage."""

    index: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the engine runs and `explain` shows."""

    name: str
    shards: int
    supersteps: tuple[Superstep, ...]
    channels: tuple[Channel, ...]
    operators: tuple[Operator, ...]
    regions: tuple[Region, ...]
    components: bytes  # coders, collections, windowing strategies: shared by all stages
    fingerprint: str
    streaming: bool = False  # many epochs, with state between them
    scripts: tuple[Script, ...] = ()  # the test streams that feed it
    facts: StateFacts = StateFacts()  # what decides how its state is read
    ordered: bool = False  # what leaves it comes in the order of a run on one shard

    def __post_init__(self) -> None:
        depth = {s.stage_id: s.superstep for s in self.stages()}
        for channel in self.channels:
            for target in channel.target_stages:
                for source in channel.source_stages:
                    far = depth[target] - depth[source]
                    if far < 0 or (far == 0 and channel.kind is not ChannelKind.LOCAL):
                        msg = (
                            f"channel {channel.channel_id} ({channel.kind.value}) goes from "
                            f"superstep {depth[source]} to {depth[target]}"
                        )
                        raise PlanError(msg)

    def stages(self) -> Iterator[Stage]:
        """All stages, superstep by superstep."""
        for superstep in self.supersteps:
            yield from superstep.stages


def step_names(plan: Plan) -> list[str]:
    """Give the steps as the user has named them, in the order in which they first run."""
    return list(
        dict.fromkeys(
            operator.partition("/")[0] for stage in plan.stages() for operator in stage.operators
        )
    )
