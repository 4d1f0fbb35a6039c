"""Writes into the pipeline which ParDos get their input in the order of event time.

Takes a proto and the analysed graph, gives a proto in which each such ParDo has Beam's requirement,
whether its author asked by `headrace.time_sorted` or the proto by itself. Refuses those without
state: nothing could tell in which order their elements came.
"""

from __future__ import annotations

import copy
from typing import Any

from headrace.compiler.analyse import AnalysedGraph, dofn_of
from headrace.compiler.graph import Node
from headrace.compiler.proto.urns import TIME_SORTED_INPUT, par_do_payload
from headrace.errors import UnsupportedTransformError
from headrace.plan.operators import Role


def ask_for_time_order(pipeline_proto: Any, graph: AnalysedGraph) -> Any:
    """Give the pipeline with the requirement of every ParDo that has it.

    Raises:
        UnsupportedTransformError: a DoFn without state asks; names all of them.
    """
    asking = [
        node for node in graph.graph.nodes if graph.operator(node.operator_id).time_sorted
    ]
    if not asking:
        return pipeline_proto
    refused = [
        f"{node.operator_id} ({_class_of(node)})"
        for node in asking
        if graph.operator(node.operator_id).role is not Role.STATEFUL
    ]
    if refused:
        msg = (
            f"{', '.join(refused)}: asks for input in the order of event time, and keeps neither "
            "state nor timers. Order is kept for each key of a stateful DoFn: give `process` an "
            "argument of DoFn.StateParam, or take @headrace.time_sorted away from the class"
        )
        raise UnsupportedTransformError(msg)
    made = copy.deepcopy(pipeline_proto)
    for node in asking:
        spec = made.components.transforms[node.transform_id].spec
        payload = par_do_payload(made.components.transforms[node.transform_id])
        payload.requires_time_sorted_input = True
        spec.payload = payload.SerializeToString()
    if TIME_SORTED_INPUT not in made.requirements:
        made.requirements.append(TIME_SORTED_INPUT)
    return made


def _class_of(node: Node) -> str:
    try:
        return type(dofn_of(par_do_payload(node.transform))[0]).__qualname__
    except Exception:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        return "its DoFn cannot be unpickled here"
