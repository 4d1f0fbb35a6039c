"""The mark of a class becomes Beam's requirement, or is refused by name."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb

import headrace
from headrace.compiler.analyse import analyse
from headrace.compiler.ask_for_time_order import ask_for_time_order
from headrace.compiler.compile import compile_pipeline
from headrace.compiler.ingest import ingest
from headrace.errors import UnsupportedTransformError
from headrace.plan.supersteps import ChannelKind, Plan
from tests.compiler import snippets

URN = common_urns.requirements.REQUIRES_TIME_SORTED_INPUT.urn


@headrace.time_sorted
class InOrder(snippets.Stateful):
    pass


class Inherits(InOrder):
    pass


@headrace.time_sorted
class Forgetful(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any) -> Any:
        yield element


def proto(dofn: beam.DoFn, *, grouped: bool = False) -> beam_pb.Pipeline:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("a", 1)]).with_output_types(tuple[str, int])
    if grouped:
        pairs = pairs | "first" >> beam.CombinePerKey(sum)
    _ = pairs | "step" >> beam.ParDo(dofn)
    return pipeline.to_runner_api()


def asked(given: beam_pb.Pipeline) -> beam_pb.Pipeline:
    return ask_for_time_order(given, analyse(ingest(given)))


def payload_of(pipeline: beam_pb.Pipeline) -> beam_pb.ParDoPayload:
    (step,) = (t for t in pipeline.components.transforms.values() if t.unique_name == "step")
    return beam_pb.ParDoPayload.FromString(step.spec.payload)


@pytest.mark.parametrize("dofn", [InOrder(), Inherits()])
def test_the_mark_sets_the_requirement_of_step_and_pipeline(dofn: beam.DoFn) -> None:
    given = proto(dofn)
    before = given.SerializeToString()
    made = asked(given)
    assert payload_of(made).requires_time_sorted_input
    assert URN in made.requirements
    assert given.SerializeToString() == before  # a new one is given


def test_a_pipeline_without_the_mark_is_left_as_it_is() -> None:
    given = proto(snippets.Stateful())
    assert asked(given) is given


def test_a_proto_that_asks_by_itself_is_honoured() -> None:
    given = proto(snippets.Stateful())
    for transform in given.components.transforms.values():
        if transform.unique_name == "step":
            payload = payload_of(given)
            payload.requires_time_sorted_input = True
            transform.spec.payload = payload.SerializeToString()
    assert URN in asked(given).requirements
    assert sorted_steps(compile_pipeline(given, shards=2)) == ["step"]


def test_a_dofn_without_state_is_refused_with_its_class_and_what_to_do() -> None:
    with pytest.raises(UnsupportedTransformError) as caught:
        compile_pipeline(proto(Forgetful()), shards=2)
    text = str(caught.value)
    assert text.startswith("step (Forgetful): asks for input in the order of event time")
    assert "DoFn.StateParam" in text and "@headrace.time_sorted" in text


def test_what_is_no_class_cannot_be_marked() -> None:
    with pytest.raises(TypeError, match="above a DoFn class, not function"):
        headrace.time_sorted(lambda element: element)


def sorted_steps(plan: Plan) -> list[str]:
    found = []
    for stage in plan.stages():
        whole = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
        for transform in whole.transforms.values():
            if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
                payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
                if payload.requires_time_sorted_input:
                    found.append(transform.unique_name)
    return found


def test_the_step_begins_a_stage_even_where_an_exchange_could_be_left_out() -> None:
    kinds = []
    for dofn in (snippets.Stateful(), InOrder()):
        plan = compile_pipeline(proto(dofn, grouped=True), shards=2, streaming=True)
        kinds.append([c.kind for c in plan.channels].count(ChannelKind.KEYED))
    assert kinds == [0, 1]


def test_a_checkpoint_with_elements_that_wait_is_not_read_without_order() -> None:
    facts = [
        compile_pipeline(proto(dofn), shards=2, streaming=True).facts.state
        for dofn in (snippets.Stateful(), InOrder())
    ]
    assert ["input sorted by time" in text for f in facts for text in f.values()] == [False, True]
