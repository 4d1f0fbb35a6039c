"""Lays fused stages out as a linear chain of supersteps and joins them by channels.

Takes Beam's fused stages, gives our frozen stages and channels. `depths` says in which superstep a
stage lies and what exchange it needs; here the channels are made that bring it about.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.depths import Node, assign_depths, group_buffer, in_order, needs_of, node_of
from headrace.compiler.one_channel import OneChannel
from headrace.compiler.proto.buffers import (
    GROUP_BUFFER,
    OUTPUT_BUFFER,
    kind_of,
    source_of,
)
from headrace.plan.ids import ChannelId, OperatorId, StageId
from headrace.plan.names import SHARD_WRITE_URN, STAGE_READ_URN
from headrace.plan.sources import Source
from headrace.plan.supersteps import Channel, ChannelKind, Port, SideInput, Stage, Superstep


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The outcome: supersteps and the channels between them."""

    supersteps: tuple[Superstep, ...]
    channels: tuple[Channel, ...]


def schedule(
    stages: list[Any],
    context: Any,
    *,
    elided: Mapping[OperatorId, str],
    one_channel: OneChannel | None = None,
) -> Schedule:
    """Assign depths, make channels, freeze.

    Args:
        stages: Beam's fused stages.
        context: Beam's transform context.
        elided: groupings whose exchange is elided, and why.
        one_channel: which operators an ordered run keeps together; None: the run is not ordered.
    """
    nodes = [node_of(s) for s in stages]
    elided_buffers = {group_buffer(name, context) for name in elided}
    written = Counter(buffer for n in nodes for _, buffer in n.writes)
    meeting = {b for b, count in written.items() if count > 1 and one_channel is not None}
    need = {n.name: needs_of(n, elided_buffers, one_channel, meeting) for n in nodes}
    assign_depths(nodes, need)
    return _Joiner(nodes, need, context, elided).join()


class _Joiner:
    """Makes the channels between scheduled stages and freezes both."""

    def __init__(
        self,
        nodes: list[Node],
        need: Mapping[str, Mapping[str, tuple[ChannelKind, str]]],
        context: Any,
        elided: Mapping[OperatorId, str],
    ) -> None:
        self._nodes = in_order(nodes)
        self._need = need
        self._context = context
        self._elided = elided
        self._channels: list[Channel] = []
        self._reads: dict[str, list[Port]] = defaultdict(list)
        self._writes: dict[str, list[Port]] = defaultdict(list)
        self._sides: dict[str, list[SideInput]] = defaultdict(list)

    def join(self) -> Schedule:
        writers: dict[str, list[tuple[Node, str]]] = defaultdict(list)
        for node in self._nodes:
            for transform_id, buffer in node.writes:
                writers[buffer].append((node, transform_id))
        for node in self._nodes:
            for transform_id, buffer in node.reads:
                self._join_read(node, transform_id, buffer, writers[buffer])
        self._join_sides(writers)
        self._join_outputs(writers)
        depth = max((n.depth for n in self._nodes), default=0)
        return Schedule(
            supersteps=tuple(
                Superstep(
                    index=d,
                    stages=tuple(self._freeze(n) for n in self._nodes if n.depth == d),
                )
                for d in range(depth + 1)
            ),
            channels=tuple(self._channels),
        )

    def _join_read(
        self, node: Node, transform_id: str, buffer: str, writers: list[tuple[Node, str]]
    ) -> None:
        kind, reason = self._need[node.name][buffer]
        read_coder = self._coder_of_read(node, transform_id)
        if kind is ChannelKind.SOURCE or not writers:
            self._add(
                kind=ChannelKind.SOURCE, sources=[], targets=[node], label=transform_id,
                reason=reason, coder_id=read_coder,
                ports=((self._reads, node, transform_id),),
                source=source_of(buffer),
            )
            return
        grouping = kind_of(buffer) == GROUP_BUFFER
        coder_id = self._coder_of_write(*writers[0])
        if grouping and kind is ChannelKind.LOCAL:
            reason = self._home_reason(buffer)
        local = [w for w in writers if w[0].depth == node.depth]
        far = [w for w in writers if w[0].depth != node.depth]
        if far and kind is ChannelKind.LOCAL:
            # What waits for a later superstep is moved; a grouping must get it back to its shard.
            kind = ChannelKind.GROUP if grouping else ChannelKind.SPREAD
            far_reason = "the reader waits for a later superstep"
        else:
            far_reason = reason
        for group, group_kind, why in (
            (local, ChannelKind.LOCAL, reason), (far, kind, far_reason)
        ):
            if not group:
                continue
            self._add(
                kind=group_kind,
                sources=[w for w, _ in group],
                targets=[node],
                label=buffer.partition(":")[2],
                reason=why,
                coder_id=coder_id,
                windowing_id=self._windowing_of_write(*writers[0]) if grouping else "",
                group_by_target=grouping and group_kind is ChannelKind.LOCAL,
                ports=(
                    (self._reads, node, transform_id),
                    *((self._writes, w, t) for w, t in group),
                ),
            )

    def _join_sides(self, writers: Mapping[str, list[tuple[Node, str]]]) -> None:
        wanted: dict[tuple[int, str], list[tuple[Node, str, str, str]]] = defaultdict(list)
        for node in self._nodes:
            for transform_id, buffer, tag, pattern in node.sides:
                wanted[node.depth, buffer].append((node, transform_id, tag, pattern))
        for (_, buffer), users in sorted(wanted.items(), key=lambda item: item[0]):
            sources = writers.get(buffer, [])
            coder_id = (
                self._coder_of_write(*sources[0]) if sources
                else self._coder_of_pcoll(buffer.partition(":")[2])
            )
            index = self._add(
                kind=ChannelKind.BROADCAST,
                sources=[w for w, _ in sources],
                targets=list({n.name: n for n, _, _, _ in users}.values()),
                label=buffer.partition(":")[2],
                reason="a side input must be whole on every shard",
                coder_id=coder_id,
                ports=tuple((self._writes, w, t) for w, t in sources),
            )
            for node, transform_id, tag, pattern in users:
                self._sides[node.name].append(
                    SideInput(
                        transform_id=transform_id, tag=tag, channel=index, access_pattern=pattern
                    )
                )

    def _join_outputs(self, writers: Mapping[str, list[tuple[Node, str]]]) -> None:
        for buffer, sources in sorted(writers.items()):
            kind, _, name = buffer.partition(":")
            if kind == OUTPUT_BUFFER:
                self._add(
                    kind=ChannelKind.OUTPUT,
                    sources=[w for w, _ in sources],
                    targets=[],
                    label=name,
                    reason="the elements leave the plan as rows of a DataFrame",
                    coder_id=self._coder_of_write(*sources[0]),
                    ports=tuple((self._writes, w, t) for w, t in sources),
                )

    def _add(
        self,
        *,
        kind: ChannelKind,
        sources: list[Node],
        targets: list[Node],
        label: str,
        reason: str,
        coder_id: str,
        ports: tuple[tuple[dict[str, list[Port]], Node, str], ...],
        windowing_id: str = "",
        group_by_target: bool = False,
        source: Source | None = None,
    ) -> int:
        index = len(self._channels)
        self._channels.append(
            Channel(
                channel_id=ChannelId(f"c{index}"),
                kind=kind,
                source_stages=tuple(StageId(n.name) for n in {id(n): n for n in sources}.values()),
                target_stages=tuple(StageId(n.name) for n in targets),
                label=label,
                reason=reason,
                coder_id=coder_id,
                windowing_id=windowing_id,
                group_by_target=group_by_target,
                source=source,
            )
        )
        for table, node, transform_id in ports:
            table[node.name].append(Port(transform_id=transform_id, channel=index))
        return index

    def _home_reason(self, buffer: str) -> str:
        for name, why in self._elided.items():
            if group_buffer(name, self._context) == buffer:
                return why
        return "the key was forwarded unchanged: exchange elided"

    def _transform(self, node: Node, transform_id: str) -> Any:
        return next(t for t in node.beam_stage.transforms if t.unique_name == transform_id)

    def _coder_of_read(self, node: Node, transform_id: str) -> str:
        outputs = self._transform(node, transform_id).outputs.values()
        return self._coder_of_pcoll(translations.only_element(outputs))

    def _coder_of_write(self, node: Node, transform_id: str) -> str:
        inputs = self._transform(node, transform_id).inputs.values()
        return self._coder_of_pcoll(translations.only_element(inputs))

    def _coder_of_pcoll(self, pcoll_id: str) -> str:
        if pcoll_id not in self._context.data_channel_coders:
            self._context.add_data_channel_coder(pcoll_id)
        return str(self._context.data_channel_coders[pcoll_id])

    def _windowing_of_write(self, node: Node, transform_id: str) -> str:
        pcoll = translations.only_element(self._transform(node, transform_id).inputs.values())
        return str(self._context.components.pcollections[pcoll].windowing_strategy_id)

    def _freeze(self, node: Node) -> Stage:
        reads, writes = self._reads[node.name], self._writes[node.name]
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(id=node.name)
        for transform in sorted(node.beam_stage.transforms, key=lambda t: t.unique_name):
            proto = descriptor.transforms[transform.unique_name]
            proto.CopyFrom(transform)
            for urn, ports, ends in (
                (bundle_processor.DATA_INPUT_URN, reads, STAGE_READ_URN),
                (bundle_processor.DATA_OUTPUT_URN, writes, SHARD_WRITE_URN),
            ):
                if transform.spec.urn != urn:
                    continue
                channels = [p.channel for p in ports if p.transform_id == transform.unique_name]
                proto.spec.urn = ends
                coder = (
                    self._coder_of_read(node, transform.unique_name)
                    if ends == STAGE_READ_URN
                    else self._coder_of_write(node, transform.unique_name)
                )
                proto.spec.payload = json.dumps({"channels": channels, "coder": coder}).encode()
        names = tuple(
            OperatorId(t.unique_name)
            for t in node.beam_stage.transforms
            if t.spec.urn
            not in (bundle_processor.DATA_INPUT_URN, bundle_processor.DATA_OUTPUT_URN)
        )
        return Stage(
            stage_id=StageId(node.name),
            name=node.name,
            operators=names,
            superstep=node.depth,
            reads=tuple(reads),
            writes=tuple(writes),
            side_inputs=tuple(self._sides[node.name]),
            transforms=descriptor.SerializeToString(deterministic=True),
            inputs=tuple(self._channels[p.channel].channel_id for p in reads)
            + tuple(self._channels[s.channel].channel_id for s in self._sides[node.name]),
            outputs=tuple(self._channels[p.channel].channel_id for p in writes),
        )
