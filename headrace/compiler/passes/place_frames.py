"""Turns reads and writes of DataFrames into the ends of stages.

Before:  ReadFromSpark -> a -> WriteToSpark
After:   read frame:ReadFromSpark -> a -> write output:WriteToSpark

The rows of a DataFrame enter in superstep 0, on the DataFrame's own partitions. A ParDo with side
inputs must wait for them, so it may not share a stage with such a read: it becomes a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.proto.buffers import OUTPUT_BUFFER, buffer_of
from headrace.compiler.proto.urns import FLATTEN, GROUP_BY_KEY, READ_FROM_SPARK, WRITE_TO_SPARK
from headrace.plan.sources import Frame

FRAME_URNS = frozenset({READ_FROM_SPARK, WRITE_TO_SPARK})

#: Their readers start stages of their own, which may lie in any superstep.
_BARRIERS = frozenset({FLATTEN, GROUP_BY_KEY})


def place_frames(stages: Iterable[Any], _context: Any) -> Iterator[Any]:
    """Replace the leaves, and keep side inputs out of superstep 0."""
    placed = []
    fed: set[str] = set()  # collections that exist in superstep 0, made from a DataFrame alone
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn == READ_FROM_SPARK:
            fed.update(transform.outputs.values())
            source = Frame(transform.unique_name)
            _become(transform, bundle_processor.DATA_INPUT_URN, buffer_of(source))
        elif transform.spec.urn == WRITE_TO_SPARK:
            buffer = translations.create_buffer_id(transform.unique_name, kind=OUTPUT_BUFFER)
            _become(transform, bundle_processor.DATA_OUTPUT_URN, buffer)
        placed.append(stage)
    _root_waiting(placed, fed)
    yield from placed


def _become(transform: Any, urn: str, buffer: bytes) -> None:
    transform.spec.CopyFrom(beam_runner_api_pb2.FunctionSpec(urn=urn, payload=buffer))


def _root_waiting(stages: list[Any], fed: set[str]) -> None:
    """Stages come in any order here, so walk until nothing new is found."""
    size = -1
    while len(fed) != size:
        size = len(fed)
        for stage in stages:
            transform = translations.only_transform(stage.transforms)
            if transform.spec.urn in _BARRIERS or stage.forced_root:
                continue
            sides = translations.side_inputs(transform)
            if not any(p in fed for tag, p in transform.inputs.items() if tag not in sides):
                continue
            if sides:
                stage.forced_root = True
            else:
                fed.update(transform.outputs.values())
