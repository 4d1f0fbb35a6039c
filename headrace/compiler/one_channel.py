"""Finds the operators that an ordered run keeps on one shard, and those that it deals out after.

Takes the analysed graph, gives their names. What is not proven to depend on nothing but the
element or its key may depend on all elements before: it has to see them all, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.compiler.analyse import AnalysedGraph
from headrace.plan.ids import OperatorId
from headrace.plan.operators import Operator, Role
from headrace.plan.traits import Selectivity, State

#: What runs code of the user element by element. Restrictions are dealt out by their nature.
_CODE = frozenset({Role.ELEMENTWISE, Role.STATEFUL})


@dataclass(frozen=True, slots=True)
class OneChannel:
    """Which operators run on one shard, and which are dealt out to all shards after one."""

    merged: Mapping[OperatorId, str]  # with the reason
    split: frozenset[OperatorId]

    @property
    def roots(self) -> frozenset[OperatorId]:
        """All of them: each begins a stage."""
        return self.split.union(self.merged)


def one_channel(graph: AnalysedGraph) -> OneChannel:
    """Decide for every operator."""
    reasons = ((o.operator_id, reason_for_one(o)) for o in graph.operators)
    merged = {name: reason for name, reason in reasons if reason}
    split = {
        reader
        for name in merged
        for reader in graph.graph.successors(name)
        if reader not in merged and graph.operator(reader).role is Role.ELEMENTWISE
    }
    return OneChannel(merged, frozenset(split))


def reason_for_one(operator: Operator) -> str:
    """Say why an operator must see all elements, in order; empty if it need not."""
    traits = operator.traits
    if operator.role in _CODE and traits.state is State.UNKNOWN:
        return traits.state_reason
    if operator.role in _CODE and traits.selectivity is Selectivity.UNKNOWN:
        return traits.selectivity_reason
    return ""
