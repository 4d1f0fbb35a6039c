"""Finds for every step what its elements are made of, and whether it can be computed on columns.

Takes the analysed graph and the pipeline's proto, gives the graph with a `Lowered`, or the reason
why there is none, for each ParDo, and the shapes of the outputs where they are known. Shapes begin
at coders and annotations and follow the expressions from step to step. Decides nothing about
stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apache_beam.coders import RowCoder, TupleCoder
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import combiners
from apache_beam.transforms.core import CallableWrapperCombineFn, CombineFn

from headrace.compiler.analyse import AnalysedGraph, dofn_of
from headrace.compiler.graph import Node
from headrace.compiler.lower.combine import lower_combine
from headrace.compiler.lower.join import Group, lower_group, lower_reduced, tagged
from headrace.compiler.lower.one_step import NotLowered, lower, promised
from headrace.compiler.lower.shapes import shape_of_coder
from headrace.compiler.lower.skipping import lower_skipping
from headrace.compiler.proto import urns
from headrace.compiler.proto.element_types import noted, refined
from headrace.plan.combines import (
    Combined,
    LoweredCombine,
    SeveralCombines,
    SkippingCombine,
)
from headrace.plan.ids import CollectionId
from headrace.plan.joins import CollectedSides, GroupStep, LoweredJoin
from headrace.plan.lowered_steps import LoweredStep
from headrace.plan.operators import Operator, Role
from headrace.plan.schema_shapes import shape_of_schema
from headrace.plan.shapes import (
    FLOAT,
    INT,
    OTHER,
    ClassFound,
    DictShape,
    RecordShape,
    ScalarShape,
    Shape,
    TupleShape,
    certain,
    joined,
)

UNKNOWN_ELEMENTS = "gets elements of which no type is known"


def lower_steps(analysed: AnalysedGraph, pipeline: beam_pb.Pipeline) -> AnalysedGraph:
    """Say of each operator what it gives, and whether columns compute it."""
    coders = _Coders(pipeline)
    known = _Known()
    shapes = known.shapes
    made: list[Operator] = []
    for node, operator in zip(analysed.graph.nodes, analysed.operators, strict=True):
        found = _step(node, operator, known, coders)
        if len(node.outputs) == 1:
            known.note(node, found)
        for tag, collection in zip(sorted(node.transform.outputs), node.outputs, strict=True):
            one = len(node.outputs) == 1
            shape = found.shape if one and found.shape is not None else coders.shape(node, tag)
            if shape is not None and shape != OTHER:
                shapes[collection] = shape
        gives = shapes.get(node.outputs[0]) if len(node.outputs) == 1 else None
        made.append(
            replace(
                operator, lowered=found.lowered, combined=found.combined,
                not_lowered=found.reason, gives=gives, of_groups=found.of_groups,
            )
        )
    return AnalysedGraph(analysed.graph, tuple(made))


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a step."""

    shape: Shape | None = None  # of its outputs
    lowered: LoweredStep | None = None
    reason: str = ""
    combined: Combined | None = None
    of_groups: GroupStep | None = None
    group: Group | None = None  # what its outputs are, if they are groups


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of collections so far."""

    shapes: dict[CollectionId, Shape] = field(default_factory=dict)
    groups: dict[CollectionId, Group] = field(default_factory=dict)
    #: What each of the steps computes whose outputs a collection holds.
    made_by: dict[CollectionId, tuple[LoweredStep | None, ...]] = field(default_factory=dict)

    def note(self, node: Node, found: _Found) -> None:
        """Note what a step was found to give, beside the shape."""
        (output,) = node.outputs
        self.made_by[output] = (found.lowered,)
        if node.urn == urns.FLATTEN:
            self.made_by[output] = tuple(
                made for given in node.inputs for made in self.made_by.get(given, (None,))
            )
        if found.group is not None:
            self.groups[output] = found.group


class _Coders:
    """The shapes that the coders of a pipeline tell."""

    def __init__(self, pipeline: beam_pb.Pipeline) -> None:
        self._collections = pipeline.components.pcollections
        self._context = PipelineContext(pipeline.components)
        self._known: dict[str, Shape | None] = {}

    def shape(self, node: Node, tag: str) -> Shape | None:
        """The shape of an output, as far as its coder and type hints tell."""
        coder_id = self._collections[node.transform.outputs[tag]].coder_id
        if coder_id not in self._known:
            try:
                self._known[coder_id] = shape_of_coder(self._context.coders.get_by_id(coder_id))
            except Exception:  # noqa: BLE001 (a coder of the user's may do anything)
                self._known[coder_id] = None
        return refined(self._known[coder_id], noted(node.transform).get(tag))

    def behind(self, node: Node, key: Shape) -> Shape:
        """The shape of keys behind an exchange: a coder of rows makes them of its own class."""
        (collection,) = node.transform.inputs.values()
        coder = self._context.coders.get_by_id(self._collections[collection].coder_id)
        if not isinstance(key, RecordShape) or not isinstance(coder, TupleCoder):
            return key
        of_key = coder.key_coder()
        made = shape_of_coder(of_key) if type(of_key) is RowCoder else None
        if not isinstance(made, RecordShape) or made.names != key.names:
            return key
        if made.found is ClassFound.BY_SCHEMA:
            made = shape_of_schema(of_key.schema)
        return replace(made, items=key.items)


def _step(
    node: Node, operator: Operator, known: _Known, coders: _Coders
) -> _Found:
    given = [known.shapes.get(c) for c in node.inputs]
    match operator.role:
        case Role.ELEMENTWISE if node.urn == urns.PAR_DO:
            return _par_do(node, given[0], known.groups.get(node.inputs[0]))
        case Role.FLATTEN:
            shapes = [s for s in given if s is not None]
            same = shapes and len(shapes) == len(given)
            return _Found(_all(shapes) if same else None)
        case Role.REDISTRIBUTE:
            return _Found(given[0])
        case Role.ELEMENTWISE if node.urn == urns.ASSIGN_WINDOWS:
            return _Found(given[0])
        case Role.GROUPING:
            return _grouped(node, given[0], known.made_by.get(node.inputs[0], ()), coders)
        case _:
            return _Found()


def _all(shapes: list[Shape]) -> Shape | None:
    found: Shape | None = shapes[0]
    for shape in shapes[1:]:
        found = None if found is None else joined(found, shape)
    return found


def _par_do(node: Node, shape: Shape | None, group: Group | None) -> _Found:
    if node.side_inputs:
        return _Found(reason="has side inputs")
    if len(node.outputs) != 1:
        return _Found(reason="has several outputs")
    payload = urns.par_do_payload(node.transform)
    try:
        dofn, args, kwargs = dofn_of(payload)
    except Exception as e:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        return _Found(reason=f"its DoFn cannot be unpickled here ({type(e).__name__})")
    of_groups = None if group is None else lower_group(dofn, group, args, kwargs)
    if group is not None and isinstance(of_groups, CollectedSides):
        return _Found(of_groups=of_groups, group=replace(group, is_collected=True))
    if isinstance(of_groups, LoweredJoin):
        return _Found(of_groups.each.result, of_groups=of_groups)
    ints = group is not None and group.values is not None and certain(group.values) == INT
    if group is not None and ints and not group.is_collected:
        reduced = lower_reduced(dofn, group.key, args, kwargs)
        if not isinstance(reduced, NotLowered):
            return _Found(reduced.each.result, of_groups=reduced)
    shape = shape or promised(dofn)
    if shape is None:
        return _Found(reason=UNKNOWN_ELEMENTS)
    made = lower(dofn, shape, args, kwargs)
    if not isinstance(made, NotLowered):
        return _Found(made.result, made)
    # Behind a GroupByKey it is the loops that could have been computed.
    seen = of_groups if isinstance(of_groups, NotLowered) else made
    return _Found(reason=seen.reason)


# Groups -------------------------------------------------------------------------------------------


def _grouped(
    node: Node, shape: Shape | None, made_by: Sequence[LoweredStep | None], coders: _Coders
) -> _Found:
    """What a group is: its key as it was, and its value as far as the combiner is known.

    The promise is held against every value that leaves, as any other is.
    """
    if not isinstance(shape, TupleShape) or len(shape.items) != 2:
        return _Found(group=tagged(made_by))
    key, value = shape.items
    key = coders.behind(node, key)
    if node.urn != urns.COMBINE_PER_KEY:
        group = tagged(made_by) or Group(key=key, values=None if value == OTHER else value)
        return _Found(TupleShape((key, OTHER)), group=group)
    payload = beam_pb.CombinePayload.FromString(node.transform.spec.payload)
    try:
        fn = CombineFn.from_runner_api(payload.combine_fn, None)
    except Exception:  # noqa: BLE001 (whatever a user's class does when it is unpickled)
        return _Found(TupleShape((key, OTHER)))
    result, combined, reason = _combined(fn, value)
    return _Found(TupleShape((key, result)), combined=combined, reason=reason)


def _combined(fn: Any, value: Shape) -> tuple[Shape, Combined | None, str]:
    """What a combine gives, how columns compute it where workers do not know it, or why not."""
    beams = _of_beam(fn, value)
    if beams is not None:
        return beams, None, ""
    if type(fn) in (combiners.TupleCombineFn, combiners.SingleInputTupleCombineFn):
        return _several(fn, value)
    # A column of a DataFrame may hold None and mostly does not: a batch without is computed on
    # columns, one with a None goes to the methods.
    values = (value,) if certain(value) == value else (value, certain(value))
    reasons: list[str] = []
    for each in values:
        made = lower_combine(fn, each)
        if not isinstance(made, NotLowered):
            return made.extract.result, made, ""
        reasons.append(made.reason)
    for each in values:
        passes = lower_skipping(fn, each)
        if not isinstance(passes, NotLowered):
            return OTHER, passes, ""
    return OTHER, None, reasons[-1]


def _several(fn: Any, value: Shape) -> tuple[Shape, Combined | None, str]:
    """What combines give that stand side by side: a tuple of what each gives."""
    fns = vars(fn)["_combiners"]
    if type(fn) is combiners.SingleInputTupleCombineFn:
        values = [value] * len(fns)
    elif isinstance(value, ScalarShape | DictShape) or len(value.items) != len(fns):
        return OTHER, None, f"combines {len(fns)} items of {value}"
    else:
        values = list(value.items)
    found = list(map(_combined, fns, values))
    shape = TupleShape(tuple(result for result, _, _ in found))
    parts: list[LoweredCombine | SeveralCombines | None] = []
    for _, combined, reason in found:
        if reason or isinstance(combined, SkippingCombine):
            return shape, None, reason or "one of several combines keeps values"
        parts.append(combined)
    return shape, SeveralCombines(parts=tuple(parts)), ""


def _of_beam(fn: Any, value: Shape) -> Shape | None:
    if isinstance(fn, combiners.CountCombineFn):
        return INT
    if isinstance(fn, combiners.MeanCombineFn):
        return FLOAT
    if isinstance(fn, CallableWrapperCombineFn) and vars(fn).get("_fn") in (sum, min, max):
        return value
    return None
