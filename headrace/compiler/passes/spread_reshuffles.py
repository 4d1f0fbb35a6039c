"""Turns each Reshuffle into a write and a read of a spread channel.

Before:  a -> Reshuffle (random key, GroupByKey, drop key) -> b
After:   a -> write spread:R        read spread:R -> b

Beam's own expansion groups by a random key only to force a shuffle. Dealing the elements out to the
shards in turn has the same effect, keeps timestamps, windows and panes, and needs no grouping.

Beam also puts a Reshuffle between the splitting and the processing of restrictions, and copies all
inputs of the splittable DoFn to it, side inputs too. Only the restrictions are dealt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.proto.buffers import SPREAD_BUFFER

_SPLIT = common_urns.sdf_components.SPLIT_AND_SIZE_RESTRICTIONS.urn
RESHUFFLE_URNS = frozenset({common_urns.composites.RESHUFFLE.urn})


def spread_reshuffles(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Replace every reshuffle stage by a writing and a reading stage."""
    restrictions: set[str] = set()
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn == _SPLIT:
            restrictions.update(transform.outputs.values())
        if transform.spec.urn not in RESHUFFLE_URNS:
            yield stage
            continue
        inputs = {
            tag: pcoll_id
            for tag, pcoll_id in transform.inputs.items()
            if len(transform.inputs) == 1 or pcoll_id in restrictions
        }
        for pcoll_id in (*inputs.values(), *transform.outputs.values()):
            context.length_prefix_pcoll_coders(pcoll_id)
        buffer = translations.create_buffer_id(transform.unique_name, kind=SPREAD_BUFFER)
        write = translations.Stage(
            transform.unique_name + "/Write",
            [_end(transform.unique_name + "/Write", bundle_processor.DATA_OUTPUT_URN, buffer,
                  inputs=inputs)],
            downstream_side_inputs=frozenset(),
            must_follow=stage.must_follow,
        )
        yield write
        yield translations.Stage(
            transform.unique_name + "/Read",
            [_end(transform.unique_name + "/Read", bundle_processor.DATA_INPUT_URN, buffer,
                  outputs=transform.outputs)],
            downstream_side_inputs=stage.downstream_side_inputs,
            must_follow=translations.union(frozenset([write]), stage.must_follow),
        )


def _end(name: str, urn: str, buffer: bytes, **ports: Any) -> Any:
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn, payload=buffer)
    return beam_runner_api_pb2.PTransform(unique_name=name, spec=spec, **ports)
