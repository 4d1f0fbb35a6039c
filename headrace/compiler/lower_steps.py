"""Finds for every step what its elements are made of, and whether it can be computed on columns.

Takes the analysed graph and the pipeline's proto, gives the graph with a `Lowered`, or the reason
why there is none, for each ParDo, and the shapes of the outputs where they are known. Shapes begin
at coders and annotations and follow the expressions from step to step. Decides nothing about
stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import combiners
from apache_beam.transforms.core import CallableWrapperCombineFn, CombineFn

from headrace.compiler import urns
from headrace.compiler.analyse import AnalysedGraph, dofn_of
from headrace.compiler.graph import Node
from headrace.compiler.lower import NotLowered, lower, promised
from headrace.compiler.lower_combine import lower_combine
from headrace.compiler.lower_shapes import shape_of_coder
from headrace.compiler.lower_skipping import lower_skipping
from headrace.plan.combines import Combined
from headrace.plan.expressions import Lowered
from headrace.plan.ids import CollectionId
from headrace.plan.operators import Operator, Role
from headrace.plan.shapes import FLOAT, INT, OTHER, Shape, TupleShape, certain, joined

UNKNOWN_ELEMENTS = "gets elements of which no type is known"


def lower_steps(analysed: AnalysedGraph, pipeline: beam_pb.Pipeline) -> AnalysedGraph:
    """Say of each operator what it gives, and whether columns compute it."""
    coders = _Coders(pipeline)
    shapes: dict[CollectionId, Shape] = {}
    made: list[Operator] = []
    for node, operator in zip(analysed.graph.nodes, analysed.operators, strict=True):
        found = _step(node, operator, shapes)
        for tag, collection in zip(sorted(node.transform.outputs), node.outputs, strict=True):
            one = len(node.outputs) == 1
            shape = found.shape if one and found.shape is not None else coders.shape(node, tag)
            if shape is not None and shape != OTHER:
                shapes[collection] = shape
        gives = shapes.get(node.outputs[0]) if len(node.outputs) == 1 else None
        made.append(
            replace(
                operator, lowered=found.lowered, combined=found.combined,
                not_lowered=found.reason, gives=gives,
            )
        )
    return AnalysedGraph(analysed.graph, tuple(made))


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a step."""

    shape: Shape | None = None  # of its outputs
    lowered: Lowered | None = None
    reason: str = ""
    combined: Combined | None = None


class _Coders:
    """The shapes that the coders of a pipeline tell."""

    def __init__(self, pipeline: beam_pb.Pipeline) -> None:
        self._collections = pipeline.components.pcollections
        self._context = PipelineContext(pipeline.components)
        self._known: dict[str, Shape | None] = {}

    def shape(self, node: Node, tag: str) -> Shape | None:
        """The shape of an output, as far as its coder tells."""
        coder_id = self._collections[node.transform.outputs[tag]].coder_id
        if coder_id not in self._known:
            try:
                self._known[coder_id] = shape_of_coder(self._context.coders.get_by_id(coder_id))
            except Exception:  # noqa: BLE001 (a coder of the user's may do anything)
                self._known[coder_id] = None
        return self._known[coder_id]


def _step(node: Node, operator: Operator, shapes: Mapping[CollectionId, Shape]) -> _Found:
    given = [shapes.get(c) for c in node.inputs]
    match operator.role:
        case Role.ELEMENTWISE if node.urn == urns.PAR_DO:
            return _par_do(node, given[0])
        case Role.FLATTEN:
            known = [s for s in given if s is not None]
            same = known and len(known) == len(given)
            return _Found(_all(known) if same else None)
        case Role.REDISTRIBUTE:
            return _Found(given[0])
        case Role.ELEMENTWISE if node.urn == urns.ASSIGN_WINDOWS:
            return _Found(given[0])
        case Role.GROUPING:
            return _grouped(node, given[0])
        case _:
            return _Found()


def _all(shapes: list[Shape]) -> Shape | None:
    found: Shape | None = shapes[0]
    for shape in shapes[1:]:
        found = None if found is None else joined(found, shape)
    return found


def _par_do(node: Node, shape: Shape | None) -> _Found:
    if node.side_inputs:
        return _Found(reason="has side inputs")
    if len(node.outputs) != 1:
        return _Found(reason="has several outputs")
    payload = urns.par_do_payload(node.transform)
    try:
        dofn, args, kwargs = dofn_of(payload)
    except Exception as e:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        return _Found(reason=f"its DoFn cannot be unpickled here ({type(e).__name__})")
    shape = shape or promised(dofn)
    if shape is None:
        return _Found(reason=UNKNOWN_ELEMENTS)
    made = lower(dofn, shape, args, kwargs)
    if isinstance(made, NotLowered):
        return _Found(reason=made.reason)
    return _Found(made.result, made)


# Groups -------------------------------------------------------------------------------------------


def _grouped(node: Node, shape: Shape | None) -> _Found:
    """What a group is: its key as it was, and its value as far as the combiner is known.

    The promise is held against every value that leaves, as any other is.
    """
    if not isinstance(shape, TupleShape) or len(shape.items) != 2:
        return _Found()
    key, value = shape.items
    if node.urn != urns.COMBINE_PER_KEY:
        return _Found(TupleShape((key, OTHER)))
    payload = beam_pb.CombinePayload.FromString(node.transform.spec.payload)
    try:
        fn = CombineFn.from_runner_api(payload.combine_fn, None)
    except Exception:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        return _Found(TupleShape((key, OTHER)))
    result = _combined(fn, value)
    if result is not None:
        return _Found(TupleShape((key, result)))
    # A column of a DataFrame may hold None and mostly does not: a batch without is computed on
    # columns, one with a None goes to the methods.
    values = (value,) if certain(value) == value else (value, certain(value))
    reasons: list[str] = []
    for each in values:
        made = lower_combine(fn, each)
        if not isinstance(made, NotLowered):
            return _Found(TupleShape((key, made.extract.result)), combined=made)
        reasons.append(made.reason)
    for each in values:
        passes = lower_skipping(fn, each)
        if not isinstance(passes, NotLowered):
            return _Found(TupleShape((key, OTHER)), combined=passes)
    return _Found(TupleShape((key, OTHER)), reason=reasons[-1])


def _combined(fn: Any, value: Shape) -> Shape | None:
    if isinstance(fn, combiners.CountCombineFn):
        return INT
    if isinstance(fn, combiners.MeanCombineFn):
        return FLOAT
    if isinstance(fn, CallableWrapperCombineFn) and vars(fn).get("_fn") in (sum, min, max):
        return value
    return None
