"""Describes every operator of a graph by its traits.

Takes the logical graph, gives the same graph with an `Operator` for each node: its role by URN and
payload, its traits by model for Beam's own transforms and by reading code for the user's. Decides
nothing about regions or exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.transforms.core import CombineFn, DoFnInfo

from headrace.compiler.code.dofn import dofn_traits
from headrace.compiler.code.effects import effects_of
from headrace.compiler.code.names import static_attribute
from headrace.compiler.graph import Graph, Node
from headrace.compiler.proto import urns
from headrace.plan.ids import OperatorId
from headrace.plan.operators import Operator, Role
from headrace.plan.parts import parts_of
from headrace.plan.sorting import is_time_sorted
from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State, Traits


@dataclass(frozen=True, slots=True)
class AnalysedGraph:
    """A graph and what is known of each of its operators."""

    graph: Graph
    operators: tuple[Operator, ...]  # in the order of `graph.nodes`
    _by_id: Mapping[OperatorId, Operator] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {o.operator_id: o for o in self.operators})

    def operator(self, operator_id: OperatorId) -> Operator:
        """The operator of that name."""
        return self._by_id[operator_id]


def analyse(graph: Graph) -> AnalysedGraph:
    """Give each operator its role and traits."""
    return AnalysedGraph(graph, tuple(_operator(node, graph) for node in graph.nodes))


def _operator(node: Node, graph: Graph) -> Operator:
    role, traits, marks = _describe(node)
    key: tuple[str, ...] = ()
    if traits.state is State.KEYED:
        # The coder is part of the key: the same value in another encoding is routed elsewhere.
        key = (f"key:{graph.collections[node.inputs[0]].key_coder or 'unknown'}",)
    return Operator(
        operator_id=node.operator_id,
        urn=node.urn,
        role=role,
        inputs=node.inputs,
        side_inputs=node.side_inputs,
        outputs=node.outputs,
        key=key,
        traits=traits,
        time_sorted=marks.time_sorted,
        in_parts=marks.in_parts,
    )


class Marks(NamedTuple):
    """What the author of a DoFn has asked for by a mark on its class."""

    time_sorted: bool = False
    in_parts: bool = False


def _describe(node: Node) -> tuple[Role, Traits, Marks]:
    if node.urn in urns.PAR_DO_LIKE:
        return _par_do(node)
    if node.urn == urns.COMBINE_PER_KEY:
        return Role.GROUPING, _combine(node), Marks()
    return *_MODELS.get(node.urn, (Role.ELEMENTWISE, Traits())), Marks()


def _par_do(node: Node) -> tuple[Role, Traits, Marks]:
    payload = urns.par_do_payload(node.transform)
    traits, marks = _unpickled(payload)
    if payload.requires_time_sorted_input:
        marks = marks._replace(time_sorted=True)
    if payload.restriction_coder_id or node.urn in urns.SDF_COMPONENTS:
        return Role.SPLITTABLE, replace(
            traits,
            selectivity=Selectivity.MANY,
            selectivity_reason="a splittable DoFn works through a restriction",
        ), marks
    if not (payload.state_specs or payload.timer_family_specs):
        return Role.ELEMENTWISE, traits, marks
    cells = ", ".join(sorted([*payload.state_specs, *payload.timer_family_specs]))
    if traits.state is State.UNKNOWN:
        return Role.STATEFUL, traits, marks
    order = "; its input is sorted by time" if marks.time_sorted else ""
    return Role.STATEFUL, replace(
        traits, state=State.KEYED, state_reason=f"keeps state or timers per key: {cells}{order}"
    ), marks


def _unpickled(payload: beam_pb.ParDoPayload) -> tuple[Traits, Marks]:
    """Give what is known of a DoFn, and the marks on its class."""
    try:
        dofn, args, kwargs = dofn_of(payload)
    except Exception as e:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        reason = f"its DoFn cannot be unpickled here ({type(e).__name__})"
        return Traits(
            state_reason=reason,
            selectivity_reason=reason,
            forwarding_reason=reason,
            determinism_reason=reason,
        ), Marks()
    marks = Marks(time_sorted=is_time_sorted(dofn), in_parts=parts_of(dofn) is not None)
    return dofn_traits(dofn, args, kwargs), marks


def dofn_of(payload: beam_pb.ParDoPayload) -> tuple[Any, Any, Any]:
    """Unpickle the DoFn of a ParDo and its arguments; raises whatever a user's class raises."""
    info = DoFnInfo.from_runner_api(payload.do_fn, None)
    dofn, args, kwargs, *_ = pickler.loads(info.serialized_dofn_data())
    return dofn, args, kwargs


def _combine(node: Node) -> Traits:
    traits = replace(_GROUPING, state_reason="keeps one accumulator per key and window")
    payload = beam_pb.CombinePayload.FromString(node.transform.spec.payload)
    try:
        fn = CombineFn.from_runner_api(payload.combine_fn, None)
    except Exception as e:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        reason = f"its CombineFn cannot be unpickled here ({type(e).__name__})"
        return replace(traits, determinism=Determinism.UNKNOWN, determinism_reason=reason)
    writes, rolls = _combine_effects(fn)
    if writes:
        traits = replace(traits, state=State.UNKNOWN, state_reason=writes[0])
    if rolls or writes:
        reason = (rolls or writes)[0]
        traits = replace(traits, determinism=Determinism.UNKNOWN, determinism_reason=reason)
    return traits


def _combine_effects(fn: object) -> tuple[list[str], list[str]]:
    """Writes and dice of a CombineFn: Beam's own are trusted, a callable inside them is read."""
    writes: list[str] = []
    rolls: list[str] = []
    if type(fn).__module__.startswith("apache_beam."):
        inner = vars(fn).get("_fn") if hasattr(fn, "__dict__") else None
        found = [effects_of(inner)] if callable(inner) else []
    else:
        methods = ("create_accumulator", "add_input", "add_inputs", "merge_accumulators")
        bound = (static_attribute(type(fn), m) for m in (*methods, "extract_output", "compact"))
        found = [effects_of(m, fn) for m in bound if getattr(m, "__code__", None) is not None]
    for effects in found:
        writes += effects.writes
        rolls += effects.dice
    return writes, rolls


_PURE = Traits(
    state=State.NONE,
    state_reason="keeps nothing",
    selectivity=Selectivity.EXACTLY_ONE,
    selectivity_reason="hands each element on",
    forwarding=KeyForwarding.FORWARDED,
    forwarding_reason="leaves the value as it is",
    determinism=Determinism.DETERMINISTIC,
    determinism_reason="asks nothing of the outside",
)
_GROUPING = replace(
    _PURE,
    state=State.KEYED,
    state_reason="keeps the values of each key and window",
    selectivity=Selectivity.MANY,
    selectivity_reason="panes leave at a pulse, in the order of time and key",
    forwarding_reason="a group carries its key",
)
_START = replace(
    _PURE,
    forwarding=KeyForwarding.CHANGED,
    forwarding_reason="has no input whose key it could hand on",
)
_READING = replace(
    _START,
    selectivity=Selectivity.MANY,
    selectivity_reason="gives what there is to read",
    determinism=Determinism.UNKNOWN,
    determinism_reason="reads data that may change",
)
_DROPPING_KEY = replace(
    _PURE,
    forwarding=KeyForwarding.CHANGED,
    forwarding_reason="gives something other than the pair it got",
)

_MODELS: Mapping[str, tuple[Role, Traits]] = {
    urns.IMPULSE: (Role.IMPULSE, _START),
    urns.READ: (Role.SOURCE, _READING),
    urns.READ_FROM_SPARK: (Role.SOURCE, _READING),
    urns.TEST_STREAM: (Role.SOURCE, _READING),
    urns.WRITE_TO_SPARK: (Role.SINK, _DROPPING_KEY),
    urns.GROUP_BY_KEY: (Role.GROUPING, _GROUPING),
    urns.FLATTEN: (Role.FLATTEN, _PURE),
    urns.ASSIGN_WINDOWS: (Role.ELEMENTWISE, _PURE),
    urns.CREATE_VIEW: (Role.ELEMENTWISE, _PURE),
    urns.MAP_WINDOWS: (Role.ELEMENTWISE, _DROPPING_KEY),
    urns.MERGE_WINDOWS: (Role.ELEMENTWISE, _DROPPING_KEY),
    urns.TO_STRING: (Role.ELEMENTWISE, _DROPPING_KEY),
    **dict.fromkeys(urns.REDISTRIBUTIONS, (Role.REDISTRIBUTE, _PURE)),
    **dict.fromkeys(urns.COMBINE_COMPONENTS, (Role.ELEMENTWISE, _PURE)),
}
