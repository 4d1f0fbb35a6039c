"""What columns know of a step behind a GroupByKey: that it only loops over the values of a key, or
asks no more of them than what they add up to.

A CoGroupByKey is a GroupByKey of tagged values, a step of Beam's that makes a list for each tag,
and what the user does with the lists. Frozen data; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.errors import PlanError
from headrace.plan.expressions import Lowered
from headrace.plan.lowered_steps import Folding
from headrace.plan.shapes import INT, Shape, TupleShape


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSides:
    """The step that makes a list for each tag."""

    tags: tuple[str, ...]

    def __str__(self) -> str:
        return f"lists of {', '.join(map(repr, self.tags))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredJoin:
    """A function of a group that gives at most one output for each turn of its innermost loop."""

    tags: tuple[str, ...]  # of all sides; empty: the group has one list of values
    loops: tuple[str, ...]  # over which sides, the outermost first; empty: over the values
    each: Lowered  # a turn: of the key and a value of each loop

    def __post_init__(self) -> None:
        if len(set(self.loops)) != len(self.loops) or not set(self.loops) <= set(self.tags):
            msg = f"loops over {self.loops} of {self.tags}"
            raise PlanError(msg)

    def __str__(self) -> str:
        over = " and ".join(map(repr, self.loops)) or "its values"
        return f"{self.each}, for each of {over}"


#: What stands for the values of a group, which are ints: the group's number in its batch, by which
#: its values are found again, how many there are, their sum, the least and the greatest of them.
REDUCED = ("number", "count", "sum", "least", "greatest")


def reduced_shape(key: Shape) -> TupleShape:
    """The shape of a key and of what stands for its values."""
    return TupleShape((key, TupleShape((INT,) * len(REDUCED))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedGroups:
    """A function of a group that asks of its values what they add up to, and nothing else."""

    each: Lowered | Folding  # of a key and what stands for its values

    def __str__(self) -> str:
        return str(self.each)


GroupStep: TypeAlias = CollectedSides | LoweredJoin | ReducedGroups
