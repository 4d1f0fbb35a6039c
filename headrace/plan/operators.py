"""One operator of a pipeline, described: what it is, what it reads and writes, what is known of it.

An operator is a leaf of Beam's transform tree, or a grouping or combine taken as a whole. Knows
nothing of Beam's protos: the compiler fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.errors import PlanError
from headrace.plan.combines import Combined
from headrace.plan.ids import CollectionId, OperatorId
from headrace.plan.joins import GroupStep
from headrace.plan.lowered_steps import LoweredStep
from headrace.plan.shapes import Shape
from headrace.plan.traits import State, Traits


class Role(Enum):
    """What an operator does to the flow of elements."""

    IMPULSE = "impulse"  # one empty element, once: the start signal of a Beam pipeline
    SOURCE = "source"  # reads its part of the data on every shard
    ELEMENTWISE = "elementwise"  # one element at a time: ParDo, window assignment
    SPLITTABLE = "splittable"  # a splittable ParDo: its work is dealt out anew before it runs
    STATEFUL = "stateful"  # a ParDo with state cells or timers
    GROUPING = "grouping"  # GroupByKey or CombinePerKey
    FLATTEN = "flatten"  # several collections become one
    REDISTRIBUTE = "redistribute"  # asks for another placement of the same elements
    SINK = "sink"  # writes its part of the data on every shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A vertex of the pipeline's graph."""

    operator_id: OperatorId
    urn: str
    role: Role
    inputs: tuple[CollectionId, ...]  # main inputs; several only for a flatten
    side_inputs: tuple[CollectionId, ...] = ()
    outputs: tuple[CollectionId, ...] = ()
    key: tuple[str, ...] = ()  # what its state is partitioned by; empty unless state is KEYED
    traits: Traits = Traits()
    time_sorted: bool = False  # elements of a key come to it in the order of event time
    in_parts: bool = False  # its DoFn names thread-safe parts, which are not cut off yet
    lowered: LoweredStep | None = None  # what it computes, where columns can; None: on objects
    combined: Combined | None = None  # of a combine: what columns compute
    of_groups: GroupStep | None = None  # of a step behind a GroupByKey: what columns compute
    not_lowered: str = ""  # why on objects; empty for what is no step of the user's
    gives: Shape | None = None  # what its outputs are made of; None: that is not known

    def __post_init__(self) -> None:
        if (self.traits.state is State.KEYED) != bool(self.key):
            msg = f"operator {self.operator_id}: state {self.traits.state.value}, key {self.key}"
            raise PlanError(msg)
