"""Turns a TestStream into reads, one for each of its outputs.

Before:  TestStream -> {a, b}
After:   read script:TestStream:a -> a     read script:TestStream:b -> b

What the stream brings is no transform's work: the engine hands it in, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.proto.buffers import buffer_of
from headrace.compiler.proto.urns import TEST_STREAM
from headrace.plan.scripts import Script, ScriptStep, StepKind
from headrace.plan.sources import ScriptOutput

SCRIPT_URNS = frozenset({TEST_STREAM})


def place_scripts(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Replace every test stream by reading stages."""
    del context
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn not in SCRIPT_URNS:
            yield stage
            continue
        for tag, pcoll in sorted(transform.outputs.items()):
            name = transform.unique_name + (f"/{tag}" if len(transform.outputs) > 1 else "")
            spec = beam_runner_api_pb2.FunctionSpec(
                urn=bundle_processor.DATA_INPUT_URN,
                payload=buffer_of(ScriptOutput(transform.unique_name, tag)),
            )
            yield translations.Stage(
                name,
                [
                    beam_runner_api_pb2.PTransform(
                        unique_name=name, spec=spec, outputs={tag: pcoll}
                    )
                ],
                downstream_side_inputs=stage.downstream_side_inputs,
                must_follow=stage.must_follow,
            )


def scripts_of(pipeline: Any) -> tuple[Script, ...]:
    """Read the test streams of a pipeline proto."""
    return tuple(
        _script(transform)
        for _, transform in sorted(pipeline.components.transforms.items())
        if transform.spec.urn in SCRIPT_URNS
    )


def _script(transform: Any) -> Script:
    payload = beam_runner_api_pb2.TestStreamPayload.FromString(transform.spec.payload)
    tags = tuple(sorted(transform.outputs))
    only = tags[0] if len(tags) == 1 else ""

    def tag_of(event: Any) -> str:
        return only or event.tag or "None"

    steps = []
    for event in payload.events:
        match event.WhichOneof("event"):
            case "element_event":
                found = tuple(
                    (e.encoded_element, e.timestamp * 1000) for e in event.element_event.elements
                )
                steps.append(
                    ScriptStep(
                        kind=StepKind.ELEMENTS, tag=tag_of(event.element_event), elements=found
                    )
                )
            case "watermark_event":
                steps.append(
                    ScriptStep(
                        kind=StepKind.WATERMARK, tag=tag_of(event.watermark_event),
                        micros=event.watermark_event.new_watermark * 1000,
                    )
                )
            case _:
                steps.append(
                    ScriptStep(
                        kind=StepKind.CLOCK,
                        micros=event.processing_time_event.advance_duration * 1000,
                    )
                )
    return Script(
        name=transform.unique_name, coder_id=payload.coder_id, tags=tags, steps=tuple(steps)
    )
