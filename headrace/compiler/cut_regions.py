"""Cuts the operators into parallel regions, from the sources on.

Takes operators with traits, gives regions: which operators may run on many shards and still give,
in the same order, what one shard would give; how elements enter and leave; how order is restored;
and for what is not parallel, why. Plain Beam promises no order and would let any ParDo run on many
shards: this is about the stronger promise, which an ordered run keeps (`number_elements`,
`one_channel`).

A region grows along a chain, left to right, while all of this holds:
  - the operator's state is none or keyed, and its outputs can be traced to its inputs;
  - only the region's first operator may have other than one way in, and only its last one other
    than one way out: where branches meet, they are merged by their numbers;
  - the keys of all keyed operators have something in common, which becomes the region's key;
  - everything in front of a keyed operator hands the key on unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.compiler.analyse import AnalysedGraph
from headrace.plan.ids import CollectionId, OperatorId, RegionId
from headrace.plan.operators import Operator, Role
from headrace.plan.regions import Joint, OrderingStrategy, Region
from headrace.plan.traits import KeyForwarding, Selectivity, State

_OPENNESS = (Selectivity.EXACTLY_ONE, Selectivity.AT_MOST_ONE, Selectivity.MANY)


def cut_regions(graph: AnalysedGraph) -> tuple[Region, ...]:
    """The regions of a graph; every operator is in exactly one."""
    return regions_of(graph.operators)


def regions_of(operators: Sequence[Operator]) -> tuple[Region, ...]:
    """The regions of operators that are given in topological order."""
    flow = _Flow(operators)
    drafts: list[_Draft] = []
    placed: set[OperatorId] = set()
    for start in operators:
        if start.operator_id in placed:
            continue
        draft = _grow(start, flow)
        placed |= {o.operator_id for o in draft.operators}
        drafts.append(draft)
    return tuple(_finish(draft, flow, drafts) for draft in drafts)


@dataclass(slots=True)
class _Draft:
    """A region while it grows."""

    operators: list[Operator]
    key: frozenset[str] = frozenset()
    keyed: bool = False
    refusal: str = ""  # why it is not parallel; empty if it is
    ending: str = ""  # why it grows no further


class _Flow:
    """Who follows whom."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._readers: dict[CollectionId, list[Operator]] = {}
        self._sides: set[tuple[CollectionId, OperatorId]] = set()
        self.maker: dict[CollectionId, Operator] = {}
        for o in operators:
            for c in o.outputs:
                self.maker[c] = o
            for c in (*o.inputs, *o.side_inputs):
                self._readers.setdefault(c, []).append(o)
            self._sides |= {(c, o.operator_id) for c in o.side_inputs}

    def ways_out(self, operator: Operator) -> list[tuple[CollectionId, Operator]]:
        return [(c, r) for c in operator.outputs for r in self._readers.get(c, ())]

    def only_successor(self, operator: Operator) -> Operator | None:
        """The one operator that reads its output as a main input, if there is just one."""
        ways = self.ways_out(operator)
        if len(ways) != 1 or (ways[0][0], ways[0][1].operator_id) in self._sides:
            return None
        return ways[0][1]


def _refusal(operator: Operator) -> str:
    """Why an operator cannot be in any parallel region; empty if it can."""
    traits = operator.traits
    if operator.role is Role.IMPULSE:
        return "emits its one element once"
    if traits.state is State.UNKNOWN:
        return traits.state_reason
    if traits.selectivity is Selectivity.UNKNOWN:
        return traits.selectivity_reason
    return ""


def _grow(start: Operator, flow: _Flow) -> _Draft:
    draft = _Draft([start], refusal=_refusal(start))
    if draft.refusal:
        return draft
    _take_key(draft, start)
    while True:
        last = draft.operators[-1]
        following = flow.only_successor(last)
        if following is None:
            ways = len(flow.ways_out(last))
            draft.ending = f"its output is read {ways} times" if ways > 1 else ""
            if ways == 1:
                draft.ending = "its output is a side input"
            return draft
        draft.ending = _obstacle(draft, following)
        if draft.ending:
            return draft
        draft.operators.append(following)
        _take_key(draft, following)


def _take_key(draft: _Draft, operator: Operator) -> None:
    if operator.traits.state is State.KEYED:
        own = frozenset(operator.key)
        draft.key = draft.key & own if draft.keyed else own
        draft.keyed = True


def _obstacle(draft: _Draft, following: Operator) -> str:
    """Why the next operator cannot join the region; empty if it can."""
    name = following.operator_id
    refusal = _refusal(following)
    if refusal:
        return f"{name} is not parallel: {refusal}"
    if len(following.inputs) > 1:
        return f"{name} has {len(following.inputs)} ways in"
    if following.role in (Role.REDISTRIBUTE, Role.SPLITTABLE):
        return f"{name} asks for a new distribution"
    if following.traits.state is not State.KEYED:
        return ""
    for before in draft.operators:
        if before.traits.forwarding is not KeyForwarding.FORWARDED:
            why = before.traits.forwarding_reason
            return f"{name} needs the key, which {before.operator_id} does not hand on: {why}"
    if draft.keyed and not draft.key & frozenset(following.key):
        return f"{name} is keyed by {_text(following.key)}, the region by {_text(draft.key)}"
    return ""


def _finish(draft: _Draft, flow: _Flow, drafts: Sequence[_Draft]) -> Region:
    first, last = draft.operators[0], draft.operators[-1]
    operators = tuple(o.operator_id for o in draft.operators)
    if draft.refusal:
        return Region(
            region_id=RegionId(first.operator_id),
            operators=operators,
            key=(),
            first_joint=None,
            last_joint=None,
            strategy=OrderingStrategy.NONE_NOT_PARALLEL,
            reasons=(f"not parallel: {draft.refusal}",),
        )
    reasons = [_why(draft)]
    if draft.ending:
        reasons.append(f"ends here: {draft.ending}")
    joints = _Neighbours(drafts)
    return Region(
        region_id=RegionId(first.operator_id),
        operators=operators,
        key=tuple(sorted(draft.key)),
        first_joint=joints.first(first, flow),
        last_joint=joints.last(last, flow),
        strategy=_strategy(draft),
        reasons=tuple(reasons),
    )


@dataclass(slots=True)
class _Neighbours:
    """Which operators begin and end parallel regions."""

    drafts: Sequence[_Draft]
    _begin: set[OperatorId] = field(init=False)
    _end: set[OperatorId] = field(init=False)

    def __post_init__(self) -> None:
        parallel = [d for d in self.drafts if not d.refusal]
        self._begin = {d.operators[0].operator_id for d in parallel}
        self._end = {d.operators[-1].operator_id for d in parallel}

    def first(self, operator: Operator, flow: _Flow) -> Joint:
        if not operator.inputs:
            return Joint.PARALLEL_SOURCE
        maker = flow.maker[operator.inputs[0]]
        adjacent = maker.operator_id in self._end and flow.only_successor(maker) is operator
        return Joint.SHUFFLE if adjacent else Joint.SPLIT

    def last(self, operator: Operator, flow: _Flow) -> Joint:
        if not flow.ways_out(operator):
            return Joint.PARALLEL_SINK
        following = flow.only_successor(operator)
        adjacent = following is not None and following.operator_id in self._begin
        return Joint.SHUFFLE if adjacent else Joint.MERGE


def _selectivity(draft: _Draft) -> Selectivity:
    return max((o.traits.selectivity for o in draft.operators), key=_OPENNESS.index)


def _strategy(draft: _Draft) -> OrderingStrategy:
    match _selectivity(draft):
        case Selectivity.EXACTLY_ONE if not draft.keyed:
            return OrderingStrategy.ROUND_ROBIN
        case Selectivity.EXACTLY_ONE:
            return OrderingStrategy.SEQUENCE
        case Selectivity.AT_MOST_ONE:
            return OrderingStrategy.SEQUENCE_AND_PULSES
        case _:
            return OrderingStrategy.SEQUENCE_SUBINDEX_AND_PULSES


def _why(draft: _Draft) -> str:
    state = f"state keyed by {_text(draft.key)}" if draft.keyed else "no state"
    selectivity = _selectivity(draft)
    widest = next(o for o in draft.operators if o.traits.selectivity is selectivity)
    text = f"{state}, {selectivity.value.replace('_', ' ')}"
    if selectivity is not Selectivity.EXACTLY_ONE:
        text += f" ({widest.operator_id}: {widest.traits.selectivity_reason})"
    return text


def _text(key: frozenset[str] | tuple[str, ...]) -> str:
    return "{" + ", ".join(sorted(key)) + "}"
