"""The compiler's front door: Beam proto in, sealed plan out. Never starts Spark.

check -> ingest -> analyse -> cut parts -> lower steps -> ask for time order -> cut regions, elide
-> fuse -> schedule -> slice windows -> number elements (of an ordered run) -> seal.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from headrace.compiler.analyse import AnalysedGraph, analyse
from headrace.compiler.ask_for_time_order import ask_for_time_order
from headrace.compiler.cut_parts import cut_parts
from headrace.compiler.cut_regions import cut_regions
from headrace.compiler.elide import elidable_groupings
from headrace.compiler.facts import facts_of
from headrace.compiler.fuse import fuse
from headrace.compiler.ingest import ingest
from headrace.compiler.lowering import lower_steps
from headrace.compiler.number_elements import number_elements
from headrace.compiler.one_channel import one_channel
from headrace.compiler.passes.place_scripts import scripts_of
from headrace.compiler.proto.urns import COMBINE_PARTS, PAR_DO, check_pipeline
from headrace.compiler.schedule import Schedule, schedule
from headrace.compiler.slice_windows import slice_windows
from headrace.plan.claims import Claims, claims_of
from headrace.plan.combines import Combined
from headrace.plan.facts import StateFacts
from headrace.plan.ids import OperatorId
from headrace.plan.supersteps import Plan, Stage

#: Frames a compilation may use: several for each transform of the longest chain.
DEEP_RECURSION = 100_000

Known = TypeVar("Known")


def compile_pipeline(
    pipeline_proto: Any,
    *,
    shards: int,
    name: str = "pipeline",
    drain: bool = False,
    streaming: bool = False,
    slicing: bool = True,
    verify_traits: bool = False,
    ordered: bool | Collection[str] = False,
) -> Plan:
    """Compile a portable pipeline.

    Args:
        pipeline_proto: what is compiled.
        shards: how many there are.
        name: what the plan is called.
        drain: splittable DoFns leave out what they have not begun.
        streaming: many epochs, with state between them.
        slicing: sliding windows share slices.
        verify_traits: check while running what is claimed of functions.
        ordered: every sink gets its rows as one shard would give them; or the sinks of these names.
    """
    with deep_recursion():
        return _compile(
            pipeline_proto, shards, name, drain, streaming, slicing, verify_traits, ordered
        )


def is_unbounded(pipeline_proto: Any) -> bool:
    """Whether a pipeline has a collection that never ends, and so must be streaming."""
    unbounded = beam_runner_api_pb2.IsBounded.UNBOUNDED
    return any(
        pcoll.is_bounded == unbounded for pcoll in pipeline_proto.components.pcollections.values()
    )


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Beam's passes and ours recurse along chains; a thousand steps is not a mistake."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEP_RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def fingerprint(laid_out: Schedule, components: Any) -> str:
    """Name the plan's structure: stages, steps, channels and their coders.

    The pickled functions inside are left out: pickling the same function twice need not give the
    same bytes.
    """
    seal = hashlib.sha256()
    for superstep in laid_out.supersteps:
        for stage in superstep.stages:
            seal.update(repr((superstep.index, stage.name, stage.operators)).encode())
    for channel in laid_out.channels:
        coder = _coder_urns(channel.coder_id, components)
        facts = (channel.kind.value, channel.label, coder, channel.source_stages,
                 channel.target_stages)
        seal.update(repr(facts).encode())
    return seal.hexdigest()[:16]


def _coder_urns(coder_id: str, components: Any) -> Any:
    if coder_id not in components.coders:
        return coder_id
    coder = components.coders[coder_id]
    return coder.spec.urn, [_coder_urns(part, components) for part in coder.component_coder_ids]


def _compile(
    pipeline_proto: Any, shards: int, name: str, drain: bool, streaming: bool, slicing: bool,
    verify_traits: bool, ordered: bool | Collection[str],
) -> Plan:
    check_pipeline(pipeline_proto, streaming=streaming)
    graph = analyse(ingest(pipeline_proto))
    if in_parts := [o.operator_id for o in graph.operators if o.in_parts]:
        pipeline_proto = cut_parts(pipeline_proto, in_parts)
        graph = analyse(ingest(pipeline_proto))
    graph = lower_steps(graph, pipeline_proto)
    pipeline_proto = ask_for_time_order(pipeline_proto, graph)
    together = one_channel(graph) if ordered else None
    elided = elidable_groupings(graph, together)
    context, stages = fuse(
        pipeline_proto, elided=elided, drain=drain, streaming=streaming,
        roots=None if together is None else together.roots,
    )
    laid_out = schedule(stages, context, elided=elided, one_channel=together)
    if slicing:
        laid_out = slice_windows(laid_out, context.components)
    if together is not None:
        laid_out = number_elements(
            laid_out, context.components, {o.operator_id: o for o in graph.operators},
            together.merged, lambda sink: isinstance(ordered, bool) or sink in ordered,
        )
    if verify_traits:
        laid_out = _claiming(laid_out, graph)
    laid_out = _lowering(laid_out, graph)
    components = beam_fn_api_pb2.ProcessBundleDescriptor(
        pcollections=dict(context.components.pcollections.items()),
        coders=dict(context.components.coders.items()),
        windowing_strategies=dict(context.components.windowing_strategies.items()),
        environments=dict(context.components.environments.items()),
    ).SerializeToString(deterministic=True)
    return Plan(
        name=name,
        shards=shards,
        supersteps=laid_out.supersteps,
        channels=laid_out.channels,
        operators=graph.operators,
        regions=cut_regions(graph),
        components=components,
        fingerprint=fingerprint(laid_out, context.components),
        streaming=streaming,
        scripts=scripts_of(pipeline_proto),
        facts=facts_of(laid_out, context.components) if streaming else StateFacts(),
        ordered=bool(ordered),
    )


def _claiming(laid_out: Schedule, graph: AnalysedGraph) -> Schedule:
    """The same schedule, whose stages tell what is claimed of their DoFns."""
    known = {operator.operator_id: claims_of(operator) for operator in graph.operators}
    return replace(
        laid_out,
        supersteps=tuple(
            replace(step, stages=tuple(replace(s, claims=_claims(s, known)) for s in step.stages))
            for step in laid_out.supersteps
        ),
    )


def _lowering(laid_out: Schedule, graph: AnalysedGraph) -> Schedule:
    """The same schedule, whose stages tell which of their steps columns can compute."""
    known = {o.operator_id: o.lowered for o in graph.operators if o.lowered is not None}
    combines = {o.operator_id: o.combined for o in graph.operators if o.combined is not None}
    groups = {o.operator_id: o.of_groups for o in graph.operators if o.of_groups is not None}
    if not known and not combines and not groups:
        return laid_out

    def with_lowered(stage: Stage) -> Stage:
        return replace(
            stage, lowered=_steps(stage, known), combines=_combines(stage, combines),
            of_groups=_steps(stage, groups),
        )

    return replace(
        laid_out,
        supersteps=tuple(
            replace(step, stages=tuple(map(with_lowered, step.stages)))
            for step in laid_out.supersteps
        ),
    )


def _combines(
    stage: Stage, known: Mapping[OperatorId, Combined]
) -> tuple[tuple[str, Combined], ...]:
    """What is known of a stage's combines: of their parts, which Beam names after the whole."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
    named = (
        (transform_id, known.get(OperatorId(transform.unique_name.rpartition("/")[0])))
        for transform_id, transform in sorted(descriptor.transforms.items())
        if transform.spec.urn in COMBINE_PARTS
    )
    return tuple((transform_id, found) for transform_id, found in named if found is not None)


def _steps(stage: Stage, known: Mapping[OperatorId, Known]) -> tuple[tuple[str, Known], ...]:
    """What is known of a stage's ParDos."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
    return tuple(
        (transform_id, known[OperatorId(transform.unique_name)])
        for transform_id, transform in sorted(descriptor.transforms.items())
        if transform.spec.urn == PAR_DO and transform.unique_name in known
    )


def _claims(
    stage: Stage, known: Mapping[OperatorId, Claims | None]
) -> tuple[tuple[str, Claims], ...]:
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
    found = (
        (transform_id, known.get(OperatorId(transform.unique_name)))
        for transform_id, transform in sorted(descriptor.transforms.items())
        if transform.spec.urn == PAR_DO
    )
    return tuple((transform_id, claims) for transform_id, claims in found if claims is not None)
