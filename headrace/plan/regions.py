"""Parallel regions: which operators may run on many shards as if they ran on one.

Frozen data: a region, the joints at its ends, the way its output order is restored. Who belongs to
which region is decided by the compiler; an ordered run keeps to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.errors import PlanError
from headrace.plan.ids import OperatorId, RegionId


class Joint(Enum):
    """How elements enter or leave a parallel region."""

    PARALLEL_SOURCE = "parallel source"  # every shard reads its own part of the data
    SPLIT = "split"  # one stream is dealt out to the shards
    SHUFFLE = "shuffle"  # from the shards of one region to the shards of the next
    MERGE = "merge"  # the shards' outputs become one stream again, in order
    PARALLEL_SINK = "parallel sink"  # every shard writes its own part


class OrderingStrategy(Enum):
    """What brings a region's output back into the order of a sequential run."""

    ROUND_ROBIN = "round robin"  # no state, exactly one: numbers are runs, told by their first
    SEQUENCE = "sequence numbers"  # keyed state, exactly one: each element keeps its number
    SEQUENCE_AND_PULSES = "sequence numbers and pulses"  # at most one: the epoch's end proves gaps
    # Any number of outputs: the n-th output of element s carries (s, n); so are gaps closed.
    SEQUENCE_SUBINDEX_AND_PULSES = "sequence numbers with sub-index and pulses"
    NONE_NOT_PARALLEL = "not parallel"  # runs on one shard, so the order is never lost


FIRST_JOINTS = frozenset({Joint.PARALLEL_SOURCE, Joint.SPLIT, Joint.SHUFFLE})
LAST_JOINTS = frozenset({Joint.PARALLEL_SINK, Joint.MERGE, Joint.SHUFFLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A chain of operators that runs on the same shards, with no exchange inside."""

    region_id: RegionId
    operators: tuple[OperatorId, ...]  # in the order of the flow, never empty
    key: tuple[str, ...]  # what routes an element to its shard; empty: any shard will do
    first_joint: Joint | None  # None: the region is not parallel, it has no joints
    last_joint: Joint | None
    strategy: OrderingStrategy
    reasons: tuple[str, ...]  # why it starts, ends and orders as it does; or why not parallel

    @property
    def parallel(self) -> bool:
        """Whether the region may run on more than one shard."""
        return self.strategy is not OrderingStrategy.NONE_NOT_PARALLEL

    def __post_init__(self) -> None:
        if not self.operators:
            msg = f"region {self.region_id} has no operators"
            raise PlanError(msg)
        first_fits = self.first_joint in FIRST_JOINTS if self.parallel else self.first_joint is None
        last_fits = self.last_joint in LAST_JOINTS if self.parallel else self.last_joint is None
        if not (first_fits and last_fits):
            msg = (
                f"region {self.region_id} ({self.strategy.value}) "
                f"has joints {self.first_joint} and {self.last_joint}"
            )
            raise PlanError(msg)
