from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.portability.python_urns import PICKLED_TRANSFORM
from apache_beam.testing.test_stream import TestStream

from headrace.compiler.proto.urns import check_pipeline, operator_transforms
from headrace.errors import UnsupportedTransformError
from tests.compiler import snippets


def proto(*transforms: beam.PTransform) -> beam_pb.Pipeline:
    pipeline = beam.Pipeline()
    source = pipeline | beam.Create([("a", 1)])
    for i, transform in enumerate(transforms):
        source | f"{i}" >> transform
    return pipeline.to_runner_api()


def named(pipeline: beam_pb.Pipeline, name: str) -> beam_pb.PTransform:
    return next(t for t in pipeline.components.transforms.values() if t.unique_name == name)


def refusal(pipeline: beam_pb.Pipeline) -> str:
    with pytest.raises(UnsupportedTransformError) as caught:
        check_pipeline(pipeline)
    return str(caught.value)


def test_a_pipeline_of_beams_own_transforms_is_accepted() -> None:
    check_pipeline(
        proto(
            beam.Map(lambda x: x),
            beam.GroupByKey(),
            beam.CombinePerKey(sum),
            beam.CombineGlobally(len),
            beam.Reshuffle(),
            beam.WindowInto(beam.window.FixedWindows(3)),
            beam.ParDo(snippets.Stateful()),
            beam.combiners.Top.Of(3),
        )
    )


def test_an_unknown_leaf_is_refused_by_name_and_urn() -> None:
    pipeline = proto(beam.Map(lambda x: x))
    named(pipeline, "0").spec.urn = "acme:transform:magic:v1"
    assert "0 (acme:transform:magic:v1): not a transform that headrace knows" in refusal(pipeline)


def test_an_unknown_composite_passes_when_its_parts_are_known() -> None:
    pipeline = proto(beam.GroupByKey())
    composite = pipeline.components.transforms["around"]
    composite.unique_name = "around"
    composite.spec.urn = "acme:transform:composite:v1"
    root = pipeline.components.transforms[pipeline.root_transform_ids[0]]
    composite.subtransforms.extend(root.subtransforms)
    del root.subtransforms[:]
    root.subtransforms.append("around")
    check_pipeline(pipeline)


def test_a_leaf_that_hands_its_input_on_is_no_problem() -> None:
    # Create holds such a leaf: MaybeReshuffle with nothing below and its input as output.
    pipeline = proto()
    leaf = named(pipeline, "Create/MaybeReshuffle")
    assert not leaf.subtransforms
    check_pipeline(pipeline)


class Unwilling(beam.PTransform):  # type: ignore[misc]
    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        msg = "not with these"
        raise ValueError(msg)


class Idle(beam.PTransform):  # type: ignore[misc]
    def expand(self, pcoll: beam.PCollection) -> beam.pvalue.PDone:
        return beam.pvalue.PDone(pcoll.pipeline)


def test_a_composite_that_made_nothing_is_no_problem() -> None:
    pipeline = beam.Pipeline()
    source = pipeline | beam.Create([1])
    with pytest.raises(ValueError, match="not with these"):
        source | Unwilling()
    source | Idle()
    made = pipeline.to_runner_api()
    assert {named(made, n).spec.urn for n in ("Unwilling", "Idle")} == {PICKLED_TRANSFORM}
    check_pipeline(made)
    assert {t.unique_name for _, t, _ in operator_transforms(made)}.isdisjoint(
        {"Unwilling", "Idle"}
    )


def test_an_unknown_leaf_is_refused_though_nothing_comes_out_of_it() -> None:
    pipeline = proto(Idle())
    named(pipeline, "0").spec.urn = "acme:transform:write:v1"
    assert "0 (acme:transform:write:v1): not a transform that headrace knows" in refusal(pipeline)


def test_a_transform_of_another_language_is_refused() -> None:
    pipeline = proto(beam.Map(lambda x: x))
    java = pipeline.components.environments["java"]
    java.urn = common_urns.environments.DOCKER.urn
    java.capabilities.append("beam:version:sdk_base:apache/beam_java17_sdk:2.77.0")
    named(pipeline, "0").environment_id = "java"
    text = refusal(pipeline)
    assert "0 (beam:transform:pardo:v1): its code lives in environment beam:env:docker:v1" in text


def test_a_python_container_counts_as_python() -> None:
    pipeline = proto(beam.Map(lambda x: x))
    docker = pipeline.components.environments["py"]
    docker.urn = common_urns.environments.DOCKER.urn
    docker.capabilities.append("beam:version:sdk_base:apache/beam_python3.11_sdk:2.77.0")
    named(pipeline, "0").environment_id = "py"
    check_pipeline(pipeline)


def test_a_function_that_is_not_python_is_refused() -> None:
    pipeline = proto(beam.Map(lambda x: x))
    transform = named(pipeline, "0")
    payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
    payload.do_fn.urn = "beam:dofn:javasdk:0.1"
    transform.spec.payload = payload.SerializeToString()
    assert "its function beam:dofn:javasdk:0.1 is not a Python DoFn" in refusal(pipeline)


def test_a_timer_in_an_unknown_time_domain_is_refused() -> None:
    pipeline = proto(beam.ParDo(snippets.Stateful()))
    transform = named(pipeline, "0")
    payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
    (family,) = payload.timer_family_specs
    payload.timer_family_specs[family].time_domain = beam_pb.TimeDomain.UNSPECIFIED
    transform.spec.payload = payload.SerializeToString()
    text = refusal(pipeline)
    assert f"0 (beam:transform:pardo:v1): timer {family!r} has unknown time domain 0" in text


def test_an_unsupported_requirement_names_the_transforms_that_ask_for_it() -> None:
    pipeline = proto(beam.Map(lambda x: x), beam.Map(lambda x: (x, 1)))
    for name in ("0", "1"):
        transform = named(pipeline, name)
        payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
        payload.requires_stable_input = True
        transform.spec.payload = payload.SerializeToString()
    text = refusal(pipeline)
    assert "beam:requirement:pardo:stable_input:v1 is not supported; asked for by 0, 1" in text


def test_a_requirement_nobody_can_be_blamed_for_is_refused_too() -> None:
    pipeline = proto()
    pipeline.requirements.append("acme:requirement:luck:v1")
    assert "requirement acme:requirement:luck:v1 is not supported" in refusal(pipeline)


def test_a_test_stream_is_refused_in_a_batch_pipeline() -> None:
    pipeline = beam.Pipeline()
    pipeline | TestStream().add_elements([1])
    text = refusal(pipeline.to_runner_api())
    assert "TestStream (beam:transform:teststream:v1): a test stream needs a streaming" in text
    check_pipeline(pipeline.to_runner_api(), streaming=True)


def test_a_test_stream_that_asks_a_service_is_refused() -> None:
    pipeline = beam.Pipeline()
    pipeline | TestStream(endpoint="localhost:1")
    with pytest.raises(UnsupportedTransformError, match="its events come from localhost:1"):
        check_pipeline(pipeline.to_runner_api(), streaming=True)


def test_all_problems_stand_in_one_error() -> None:
    pipeline = proto(beam.Map(lambda x: x), beam.Map(lambda x: (x, 1)))
    for name in ("0", "1"):
        named(pipeline, name).spec.urn = f"acme:{name}"
    pipeline.requirements.append("acme:requirement:luck:v1")
    text = refusal(pipeline)
    assert [part in text for part in ("0 (acme:0)", "1 (acme:1)", "acme:requirement")] == [True] * 3
    assert len(text.splitlines()) == 4
