"""Decides which exchange each stage needs before it, and in which superstep it lies.

Takes Beam's fused stages, gives nodes with a depth: the largest number of exchanges on any path to
the stage. Stages fed by an impulse alone sink as deep as their readers allow, so that their rows
need not pass through supersteps that do not want them. Makes no channels: `schedule` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor
from apache_beam.utils import proto_utils

from headrace.compiler.one_channel import OneChannel
from headrace.compiler.passes.root_stateful import is_stateful
from headrace.compiler.proto.buffers import GROUP_BUFFER, SPREAD_BUFFER, kind_of, source_of
from headrace.errors import PlanError
from headrace.plan.sources import Frame, Impulse, ScriptOutput
from headrace.plan.supersteps import ChannelKind

_PROCESS_SIZED = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
_TRUNCATE_SIZED = common_urns.sdf_components.TRUNCATE_SIZED_RESTRICTION.urn
#: Why a stage begins with a source of this type.
_STARTS = {
    Impulse: "an impulse starts the stage",
    Frame: "the rows of a DataFrame start the stage",
    ScriptOutput: "a test stream starts the stage",
}


@dataclass(kw_only=True)
class Node:
    """A fused stage while it is being scheduled."""

    beam_stage: Any
    name: str
    reads: list[tuple[str, str]] = field(default_factory=list)  # (transform, buffer)
    writes: list[tuple[str, str]] = field(default_factory=list)
    sides: list[tuple[str, str, str, str]] = field(default_factory=list)  # + tag, pattern
    depth: int = 0


def node_of(stage: Any) -> Node:
    """Read what a fused stage reads and writes."""
    node = Node(beam_stage=stage, name=stage.name)
    for transform in stage.transforms:
        urn = transform.spec.urn
        if urn == bundle_processor.DATA_INPUT_URN:
            node.reads.append((transform.unique_name, transform.spec.payload.decode()))
        elif urn == bundle_processor.DATA_OUTPUT_URN:
            node.writes.append((transform.unique_name, transform.spec.payload.decode()))
        elif urn in translations.PAR_DO_URNS:
            payload = proto_utils.parse_Bytes(
                transform.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            for tag, side in sorted(payload.side_inputs.items()):
                buffer = translations.create_buffer_id(transform.inputs[tag]).decode()
                node.sides.append(
                    (transform.unique_name, buffer, tag, side.access_pattern.urn)
                )
    return node


def group_buffer(transform_name: str, context: Any) -> str:
    """Give the id of the buffer that a grouping reads."""
    for transform_id, proto in context.components.transforms.items():
        if proto.unique_name == transform_name:
            return str(translations.create_buffer_id(transform_id, kind=GROUP_BUFFER).decode())
    return str(translations.create_buffer_id(transform_name, kind=GROUP_BUFFER).decode())


def needs_of(
    node: Node, elided: set[str], one_channel: OneChannel | None, meeting: Collection[str]
) -> dict[str, tuple[ChannelKind, str]]:
    """For each buffer the stage reads: the exchange it needs and why (LOCAL: none by itself).

    Args:
        node: the stage.
        elided: buffers whose exchange is elided.
        one_channel: which operators an ordered run keeps together; None: the run is not ordered.
        meeting: buffers that several write, which an ordered run merges by number.
    """
    needs: dict[str, tuple[ChannelKind, str]] = {}
    by_name = {t.unique_name: t for t in node.beam_stage.transforms}
    for transform_id, buffer in node.reads:
        kind, source = kind_of(buffer), source_of(buffer)
        out = translations.only_element(by_name[transform_id].outputs.values())
        consumers = [
            t for t in node.beam_stage.transforms
            if out in t.inputs.values() and t.unique_name != transform_id
        ]
        if source is not None:
            needs[buffer] = (ChannelKind.SOURCE, _STARTS[type(source)])
        elif one_channel and (why := _seen_by_one(consumers, one_channel)):
            needs[buffer] = (ChannelKind.MERGE, why)
        elif one_channel and any(t.unique_name in one_channel.split for t in consumers):
            needs[buffer] = (ChannelKind.SPREAD, "one channel is split into many again")
        elif kind == GROUP_BUFFER and buffer in elided:
            needs[buffer] = (ChannelKind.LOCAL, "the key was forwarded unchanged: exchange elided")
        elif kind == GROUP_BUFFER:
            needs[buffer] = (ChannelKind.GROUP, "a grouping needs all values of a key on one shard")
        elif kind == SPREAD_BUFFER:
            needs[buffer] = (ChannelKind.SPREAD, "a reshuffle asks for redistribution")
        elif any(is_stateful(t) for t in consumers):
            needs[buffer] = (ChannelKind.KEYED, "state and timers live on the shard of the key")
        elif any(t.spec.urn in (_PROCESS_SIZED, _TRUNCATE_SIZED) for t in consumers):
            needs[buffer] = (ChannelKind.SPREAD, "restrictions are dealt out before processing")
        elif buffer in meeting:
            needs[buffer] = (ChannelKind.SPREAD, "branches that meet are merged in order")
        else:
            needs[buffer] = (ChannelKind.LOCAL, "no exchange is needed between the two stages")
    return needs


def _seen_by_one(consumers: list[Any], one_channel: OneChannel) -> str:
    """Say which operator must see all elements, and why; empty if none must."""
    for transform in consumers:
        why = one_channel.merged.get(transform.unique_name)
        if why is not None:
            return f"{transform.unique_name} must see all elements, in order: {why}"
    return ""


def assign_depths(
    nodes: list[Node], need: Mapping[str, Mapping[str, tuple[ChannelKind, str]]]
) -> None:
    """Give every node its depth; the nodes come in topological order."""
    writers: dict[str, list[Node]] = defaultdict(list)
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for _, buffer in node.writes:
            writers[buffer].append(node)
        for buffer in {b for _, b in node.reads} | {b for _, b, _, _ in node.sides}:
            readers[buffer].append(node)
    for node in nodes:  # topological order: writers come first
        depth = 0
        for _, buffer in node.reads:
            step = 0 if need[node.name][buffer][0] is ChannelKind.LOCAL else 1
            depth = max([depth, *(w.depth + step for w in writers[buffer])])
        for _, buffer, _, _ in node.sides:
            depth = max([depth, *(w.depth + 1 for w in writers[buffer])])
        node.depth = depth
        if depth and any(isinstance(source_of(b), Frame) for _, b in node.reads):
            msg = f"stage {node.name} reads a DataFrame in superstep {depth}, not in the first"
            raise PlanError(msg)
    for node in nodes:
        if node.sides or not all(isinstance(source_of(b), Impulse) for _, b in node.reads):
            continue
        below = [r.depth for _, buffer in node.writes for r in readers[buffer]]
        if below and min(below) > 1:
            node.depth = min(below) - 1


def in_order(nodes: list[Node]) -> list[Node]:
    """Order by superstep, then writers before their local readers, then by name."""
    writers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for _, buffer in node.writes:
            writers[buffer].append(node)
    level: dict[str, int] = {}
    for node in nodes:  # topological order: a writer's level is known before its reader's
        before = [
            level[w.name] for _, b in node.reads for w in writers[b] if w.depth == node.depth
        ]
        level[node.name] = 1 + max(before, default=0)
    return sorted(nodes, key=lambda n: (n.depth, level[n.name], n.name))
