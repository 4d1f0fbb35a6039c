"""Finds groupings whose input already sits on the right shard, so that no exchange is needed.

Takes the analysed graph, gives the operators that may group where they are, each with the reason.

Before:  GroupByKey A -> Map (hands the key on) =exchange by key=> GroupByKey B
After:   GroupByKey A -> Map (hands the key on) -> GroupByKey B

An element stays where A's exchange put it only as long as nothing moves it. So on every way back
from B there must be a grouping by a key with the same coder, and between the two only operators
that provably hand the key on. Redistributions move elements by design. A side input moves them too:
its reader waits for a later superstep, and what waits is dealt out anew; so no operator that could
be fused into one of these stages may have one. Branches that meet in a flatten must have crossed
the same number of exchanges, or one of them waits for the other.

An ordered run moves more: branches that meet are dealt out by their numbers, and what must see all
elements is brought to one shard and dealt out behind it. There nothing is in place any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.compiler.analyse import AnalysedGraph
from headrace.compiler.one_channel import OneChannel
from headrace.compiler.proto.urns import REDISTRIBUTIONS
from headrace.plan.ids import OperatorId
from headrace.plan.operators import Operator, Role
from headrace.plan.traits import KeyForwarding

_BY_KEY = frozenset({Role.GROUPING, Role.STATEFUL})
_MOVES = _BY_KEY | {Role.REDISTRIBUTE, Role.SPLITTABLE}


def elidable_groupings(
    graph: AnalysedGraph, one_channel: OneChannel | None = None
) -> Mapping[OperatorId, str]:
    """The groupings and stateful ParDos that need no exchange, in topological order.

    Args:
        graph: the analysed graph.
        one_channel: which operators an ordered run keeps together; None: the run is not ordered.
    """
    return _Search(graph, one_channel).run()


class _NotPlaced(Exception):
    """Some way back from the operator does not lead to a fitting grouping."""


@dataclass(slots=True)
class _Search:
    graph: AnalysedGraph
    one_channel: OneChannel | None

    def run(self) -> dict[OperatorId, str]:
        found: dict[OperatorId, str] = {}
        depth: dict[OperatorId, int] = {}
        for operator in self.graph.operators:
            before = [depth[p] for p in self.graph.graph.predecessors(operator.operator_id)]
            makers = (self.graph.graph.collections[c].producer for c in operator.side_inputs)
            aside = [depth[m] + 1 for m in makers]
            reason = self._reason(operator, depth) if operator.role in _BY_KEY else ""
            if reason:
                found[operator.operator_id] = reason
            step = 1 if operator.role in _MOVES and not reason else 0
            depth[operator.operator_id] = max([0, *(d + step for d in before), *aside])
        return found

    def _reason(self, operator: Operator, depth: Mapping[OperatorId, int]) -> str:
        """Why the operator finds its input in place; empty when it does not."""
        if self._redistributed(operator) or len(operator.inputs) != 1 or operator.side_inputs:
            return ""
        if operator.time_sorted:
            return ""  # only what enters a stage can be held until its time has come
        if self._moved_by_order(operator):
            return ""
        coder = self._key_coder(operator)
        if not coder:
            return ""
        try:
            placing = list(dict.fromkeys(self._groupings_that_placed(operator, coder)))
        except _NotPlaced:
            return ""
        if any(self._side_inputs_near(o) for o in (operator, *placing)):
            return ""
        if len(placing) > 1 and not self._level(placing, depth):
            return ""
        names = " and ".join(g.operator_id for g in placing)
        return f"grouped by the same key ({coder}) in {names}, and handed on unchanged since"

    def _groupings_that_placed(self, operator: Operator, coder: str) -> Iterator[Operator]:
        """The groupings that placed the operator's input; raises where there is none."""
        for name in self.graph.graph.predecessors(operator.operator_id):
            before = self.graph.operator(name)
            if self._redistributed(before) or before.side_inputs:
                raise _NotPlaced
            if self._moved_by_order(before):
                raise _NotPlaced
            if before.traits.forwarding is not KeyForwarding.FORWARDED:
                raise _NotPlaced
            if before.role in _BY_KEY:
                if self._key_coder(before) != coder:
                    raise _NotPlaced
                yield before
            elif before.role in (Role.ELEMENTWISE, Role.FLATTEN) and before.inputs:
                yield from self._groupings_that_placed(before, coder)
            else:
                raise _NotPlaced

    def _key_coder(self, operator: Operator) -> str:
        """The coder of the key by which the operator's input is placed."""
        return self.graph.graph.collections[operator.inputs[0]].key_coder

    def _redistributed(self, operator: Operator) -> bool:
        """Whether it is a redistribution, or a part of one: then placement is its very purpose."""
        scopes = self.graph.graph.node(operator.operator_id).scopes
        return operator.role is Role.REDISTRIBUTE or bool(REDISTRIBUTIONS & set(scopes))

    def _moved_by_order(self, operator: Operator) -> bool:
        """Whether an ordered run has an exchange at its door that does not ask for the key."""
        if self.one_channel is None:
            return False
        meets = operator.role is Role.FLATTEN and len(operator.inputs) > 1
        return meets or operator.operator_id in self.one_channel.roots

    def _side_inputs_near(self, operator: Operator) -> bool:
        """Whether anything that may share a stage with its outputs reads a side input."""
        seen: set[OperatorId] = set()
        waiting = list(self.graph.graph.successors(operator.operator_id))
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            near = self.graph.operator(name)
            if near.side_inputs and near.role not in _MOVES:
                return True
            if near.role not in _MOVES:
                waiting.extend(self.graph.graph.successors(name))
        return False

    def _level(self, placing: list[Operator], depth: Mapping[OperatorId, int]) -> bool:
        """Whether all these groupings surely run in the same superstep."""
        for grouping in placing:
            behind = self.graph.graph.upstream(grouping.operator_id)
            if grouping.side_inputs or any(node.side_inputs for node in behind):
                return False  # depths then depend on what fusion puts together
        return len({depth[g.operator_id] for g in placing}) == 1
