"""What columns know of a step behind a GroupByKey: that it only loops over the values of a key.

A CoGroupByKey is a GroupByKey of tagged values, a step of Beam's that makes a list for each tag,
and what the user does with the lists. Frozen data; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.errors import PlanError
from headrace.plan.expressions import Lowered


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


GroupStep: TypeAlias = CollectedSides | LoweredJoin
