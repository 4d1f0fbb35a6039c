"""Finds the operators that an ordered run keeps on one shard, and those that it deals out after.

Takes the analysed graph, gives two sets of names. What is not proven to depend on nothing but the
element or its key may depend on all elements before: it has to see them all, in order.
"""

from __future__ import annotations

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

    merged: frozenset[OperatorId] = frozenset()
    split: frozenset[OperatorId] = frozenset()

    @property
    def roots(self) -> frozenset[OperatorId]:
        """All of them: each begins a stage."""
        return self.merged | self.split


def one_channel(graph: AnalysedGraph) -> OneChannel:
    """Decide for every operator."""
    merged = {o.operator_id for o in graph.operators if is_sequential(o)}
    split = {
        reader
        for name in merged
        for reader in graph.graph.successors(name)
        if reader not in merged and graph.operator(reader).role is Role.ELEMENTWISE
    }
    return OneChannel(frozenset(merged), frozenset(split))


def is_sequential(operator: Operator) -> bool:
    """Whether an operator must see all elements, in order."""
    traits = operator.traits
    unknown = traits.state is State.UNKNOWN or traits.selectivity is Selectivity.UNKNOWN
    return operator.role in _CODE and unknown
