"""Cuts ParDos at the thread-safe parts that their DoFns name, so that each part is an operator.

Takes a pipeline proto and their names, gives a proto in which such a ParDo is up to three: what
comes before its critical section, the critical section, what comes after. What comes before a keyed
exchange then runs on the shards that its elements come from; around what must see all elements in
order, both run on all shards. Where each of them runs is decided later, as of any operator.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from apache_beam.coders import FastPrimitivesCoder
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.core import DoFnInfo

from headrace.compiler.part_fns import KeyedPart, Part
from headrace.compiler.proto.urns import PAR_DO, operator_transforms, par_do_payload
from headrace.plan.parts import parts_of
from headrace.plan.sorting import is_time_sorted

_KV = common_urns.coders.KV.urn
_ANY_CODER = "headrace-any"
_MAIN_TAG = "None"


def cut_parts(pipeline: Any, names: Collection[str]) -> Any:
    """Give the pipeline with each part of these operators as a ParDo of its own."""
    made = copy.deepcopy(pipeline)
    for transform_id, transform, _ in list(operator_transforms(made)):
        if transform.unique_name in names:
            _cut(made.components, transform_id)
    return made


def _cut(components: Any, transform_id: str) -> None:
    transform = components.transforms[transform_id]
    name = transform.unique_name
    payload = par_do_payload(transform)
    spec = DoFnInfo.from_runner_api(payload.do_fn, None)
    fn, *rest = pickler.loads(spec.serialized_dofn_data())
    parts = parts_of(fn)
    assert parts is not None  # `analyse` has seen them
    others = {*payload.side_inputs, *payload.timer_family_specs}
    (main_tag,) = (tag for tag in transform.inputs if tag not in others)
    source = transform.inputs[main_tag]
    critical = copy.copy(fn)
    critical.__class__ = parts.critical
    if is_time_sorted(fn):  # the mark may stand above ours, on the class that is cut
        payload.requires_time_sorted_input = True
    payload.do_fn.urn = python_urns.PICKLED_DOFN_INFO
    payload.do_fn.payload = pickler.dumps((critical, *rest))
    transform.spec.payload = payload.SerializeToString()
    if parts.before:
        keyed = bool(payload.state_specs or payload.timer_family_specs)
        between = _collection(components, source, f"{name}/before", keyed=keyed)
        part = KeyedPart(critical, parts.before) if keyed else Part(critical, parts.before)
        _insert(components, transform_id, "before", part, source, between)
        transform.inputs[main_tag] = between
    if parts.after and (tag := _main(transform)) is not None:
        target = transform.outputs[tag]
        between = _collection(components, target, f"{name}/after", keyed=False)
        _insert(components, transform_id, "after", Part(critical, parts.after), between, target)
        transform.outputs[tag] = between


def _main(transform: Any) -> str | None:
    """Give the tag of the main output."""
    tags = list(transform.outputs)
    return tags[0] if len(tags) == 1 else (_MAIN_TAG if _MAIN_TAG in tags else None)


def _collection(components: Any, like: str, name: str, *, keyed: bool) -> str:
    """Make a collection of any elements beside another; of a keyed one the key keeps its coder."""
    if _ANY_CODER not in components.coders:
        spec = FastPrimitivesCoder().to_runner_api(PipelineContext())
        components.coders[_ANY_CODER].CopyFrom(spec)
    coder = _ANY_CODER
    before = components.coders[components.pcollections[like].coder_id]
    if keyed and before.spec.urn == _KV:
        coder = f"{name}-coder"
        components.coders[coder].spec.urn = _KV
        components.coders[coder].component_coder_ids.extend(
            [before.component_coder_ids[0], _ANY_CODER]
        )
    elif keyed:
        coder = components.pcollections[like].coder_id
    components.pcollections[name].CopyFrom(components.pcollections[like])
    components.pcollections[name].unique_name = name
    components.pcollections[name].coder_id = coder
    return name


def _insert(
    components: Any, transform_id: str, name: str, part: Part | KeyedPart, source: str, target: str
) -> None:
    """Put a ParDo before or after another, in its place among the steps."""
    beside = components.transforms[transform_id]
    part_id = f"{transform_id}-{name}"
    payload = beam_pb.ParDoPayload()
    payload.do_fn.urn = python_urns.PICKLED_DOFN_INFO
    payload.do_fn.payload = pickler.dumps((part, (), {}, [], None))
    made = components.transforms[part_id]
    made.unique_name = f"{beside.unique_name}/{name}"
    made.environment_id = beside.environment_id
    made.spec.urn = PAR_DO
    made.spec.payload = payload.SerializeToString()
    made.inputs["in"] = source
    made.outputs[_MAIN_TAG] = target
    for parent in components.transforms.values():
        steps = list(parent.subtransforms)
        if transform_id in steps:
            steps.insert(steps.index(transform_id) + (name == "after"), part_id)
            del parent.subtransforms[:]
            parent.subtransforms.extend(steps)
