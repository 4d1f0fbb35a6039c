"""Lays the batched chains of one stage: which operations run on batches, and what follows them.

Takes the stage's descriptor and Beam's operations, gives one entry per stage input. Decides once,
when the stage is built.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms import core
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils import proto_utils

from headrace.plan.expressions import Lowered
from headrace.plan.joins import CollectedSides, GroupStep, ReducedGroups
from headrace.plan.lowered_steps import Folding, Ranged
from headrace.plan.settings import ColumnsMode
from headrace.plan.supersteps import Stage
from headrace.worker.batched.batches import Meta, batch_of, numbered
from headrace.worker.batched.cause import Cause
from headrace.worker.batched.chains import Edge, element_node
from headrace.worker.batched.column_batches import Node
from headrace.worker.batched.combine_steps import CombineStep
from headrace.worker.batched.combining import PreCombine, owns_resources
from headrace.worker.batched.ends import ColumnTaker
from headrace.worker.batched.fold_step import FoldStep
from headrace.worker.batched.join_step import CollectedNode, JoinNode, turn_of
from headrace.worker.batched.lowered_step import LoweredStep
from headrace.worker.batched.operations import (
    MAIN_TAG,
    ShardWrite,
    Shared,
    SimpleDo,
    StageRead,
)
from headrace.worker.batched.parameters import Begin
from headrace.worker.batched.plain_values import frozen_type, is_frozen
from headrace.worker.batched.range_step import RangeStep
from headrace.worker.batched.reduce_step import GroupLists, ReduceNode
from headrace.worker.batched.slowing import slowed
from headrace.worker.batched.step_nodes import step_node
from headrace.worker.batched.steps import Results
from headrace.worker.batched.window_assignment import WindowsNode
from headrace.worker.beam_types import Element, Operation, Proto, Value
from headrace.worker.columns.values import ColumnValues

_ASSIGN_WINDOWS = common_urns.primitives.ASSIGN_WINDOWS.urn
_PHASES = {
    common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn: "merge",
    common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn: "extract",
    common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn: "convert",
    common_urns.combine_components.COMBINE_GROUPED_VALUES.urn: "all",
}


#: Elements gathered before a batched chain runs; fewer than a batch, as they may be large.
REBATCH_VALUES = 512


class Rebatcher:
    """Gathers single elements into batches, as long as they cannot change while they wait."""

    def __init__(self, node: Node, most: int = REBATCH_VALUES) -> None:
        self._node = node
        self._most = most
        self._held: list[Value] = []
        self._numbers: list[int] = []  # of what caused them, in an ordered run

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._held.append(element)
        if Cause.number is not None:
            self._numbers.append(Cause.number)
        if len(self._held) >= self._most or not is_frozen(element.value):
            self.flush()

    def flush(self) -> None:
        """Run what is held."""
        if self._held:
            held, self._held = self._held, []
            numbers, self._numbers = self._numbers, []
            values, meta = batch_of(held)
            self._node(values, numbered(values, meta, numbers) if numbers else meta)


class Route:
    """The batched chains of one stage."""

    def __init__(
        self,
        descriptor: Proto,
        ops: dict[str, Operation],
        context: Any,
        stage: Stage,
        columns: ColumnsMode,
    ) -> None:
        self._descriptor = descriptor
        self._ops = ops
        self._context = context
        self._verified = columns is ColumnsMode.VERIFY
        # What is numbered, or split off, must be single elements.
        self._makes_columns = columns is not ColumnsMode.OFF and stage.order is None
        # A DoFn that checks itself is called for each element.
        checked = {transform_id for transform_id, _ in stage.claims}
        self._lowered = {t: found for t, found in stage.lowered if t not in checked}
        self._combines = dict(stage.combines)
        self._of_groups = {t: found for t, found in stage.of_groups if t not in checked}
        self._consumers: dict[str, list[str]] = defaultdict(list)
        self._nodes: dict[str, Node] = {}
        self._precombines: set[str] = set()  # transforms whose nodes hold something
        self._lists = not Shared.whole.isdisjoint(ops)
        for transform_id in ops:
            proto = descriptor.transforms[transform_id]
            sides = _side_tags(proto)
            for tag, pcoll in proto.inputs.items():
                if tag not in sides:
                    self._consumers[pcoll].append(transform_id)
        self._rebatchers: dict[str, Rebatcher] = {}
        self.entries: dict[str, Edge] = {
            transform_id: self._edge(transform_id)
            for transform_id, op in ops.items()
            if isinstance(op, StageRead)
        }
        behind_timers = self._behind_timers()
        for transform_id, op in ops.items():
            if not isinstance(op, SimpleDo) or op.call is not None:
                continue
            if transform_id not in self._nodes or transform_id in behind_timers:
                # Fed one by one, by timers or by an operation outside the batched chains: gather
                # batches for it.
                # A block is a batch already, and who made it must not run ahead.
                most = 1 if op.step.results is Results.BLOCK else REBATCH_VALUES
                rebatcher = Rebatcher(self._node(transform_id), most)
                self._rebatchers[transform_id] = rebatcher
                op.process = rebatcher.process

    def _behind_timers(self) -> set[str]:
        """Give the transforms that take what timers put out: Beam fires those one by one."""
        found: set[str] = set()
        for transform_id, op in self._ops.items():
            if isinstance(op, SimpleDo) and op.call is not None:
                proto = self._descriptor.transforms[transform_id]
                if _par_do(proto).timer_family_specs:
                    found.update(c for p in proto.outputs.values() for c in self._consumers[p])
        return found

    def before_finish(self, transform_id: str) -> None:
        """Send on what is held for or by an operation, before it finishes its bundle."""
        rebatcher = self._rebatchers.get(transform_id)
        if rebatcher is not None:
            rebatcher.flush()
        if transform_id in self._precombines:
            self._nodes[transform_id].finish()  # type: ignore[attr-defined]

    def _edge(self, transform_id: str, **more: Any) -> Edge:
        proto = self._descriptor.transforms[transform_id]
        (pcoll,) = proto.outputs.values()
        return self._edge_of(transform_id, 0, pcoll, **more)

    def _edge_of(self, transform_id: str, index: int, pcoll: str, **more: Any) -> Edge:
        consumers = self._consumers[pcoll]
        receiver = self._ops[transform_id].receivers[index]
        more["lists"] = self._lists
        for consumer in consumers:
            if self._ops[consumer].get_batching_preference().supports_batches:
                return Edge(receiver, None, **more)  # Beam makes and converts the batches
        if receiver.opcounter.output_type_constraints:
            return Edge(receiver, None, **more)  # each element is type-checked
        return Edge(receiver, [self._node(c) for c in consumers], **more)

    def _by_element(self, op: Operation) -> Node:
        return element_node(op, self._lists)

    def _node(self, transform_id: str) -> Node:
        found = self._nodes.get(transform_id)
        if found is None:
            name = self._descriptor.transforms[transform_id].unique_name
            found = self._nodes[transform_id] = slowed(self._make(transform_id), name)
        return found

    def _make(self, transform_id: str) -> Node:
        op = self._ops[transform_id]
        proto = self._descriptor.transforms[transform_id]
        name = op.name_context.logging_name()
        if isinstance(op, ShardWrite):
            takes = getattr(op.writer, "takes_columns", False)
            return WriterNode(op.writer) if takes else op.writer.write
        if isinstance(op, SimpleDo):
            if op.step.results is Results.BLOCK and type(op.window_fn) is not GlobalWindows:
                return self._by_element(op)  # its times alone do not say where the outputs belong
            edge = self._outputs(transform_id, op, name)
            node = begun_node(
                op.step.begin,
                step_node(op.step, op, name, edge, ranges=self._makes_columns),
            )
            return self._on_columns(transform_id, op, name, edge, node)
        if len(proto.outputs) != 1:
            return self._by_element(op)
        if proto.spec.urn == _ASSIGN_WINDOWS:
            strategy = proto_utils.parse_Bytes(
                proto.spec.payload, beam_runner_api_pb2.WindowingStrategy
            )
            window_fn = core.Windowing.from_runner_api(strategy, self._context).windowfn
            edge = self._edge(transform_id)
            return WindowsNode(window_fn, op, name, edge, verified=self._verified)
        if isinstance(op, operations.PGBKCVOperation) and op.timestamp_combiner is None:
            (pcoll,) = proto.outputs.values()
            shares = all(
                getattr(getattr(self._ops[c], "writer", None), "shares_windows", False)
                for c in self._consumers[pcoll]
            )
            held = PreCombine(
                op, name, self._edge(transform_id), shares,
                lowered=self._combines.get(transform_id), verified=self._verified,
            )
            self._precombines.add(transform_id)
            return held
        if isinstance(op, operations.CombineOperation) and proto.spec.urn in _PHASES:
            combine_fn = pickler.loads(op.spec.serialized_fn)[0]
            if not owns_resources(combine_fn):
                phase = _PHASES[proto.spec.urn]
                return CombineStep(
                    op, phase, combine_fn, name, self._edge(transform_id),
                    lowered=self._combines.get(transform_id), verified=self._verified,
                )
        if proto.spec.urn == bundle_processor.IDENTITY_DOFN_URN:
            return self._edge(transform_id)
        return self._by_element(op)

    def _on_columns(
        self, transform_id: str, op: SimpleDo, name: str, edge: Edge, node: Node
    ) -> Node:
        """Give a ParDo that takes columns where it is known what they come to; else the same."""
        of_groups = self._of_groups.get(transform_id)
        if of_groups is not None and len(op.spec.output_tags) == 1:
            return self._of_group(of_groups, op, name, node, edge)
        lowered = self._lowered.get(transform_id)
        asks = op.step.begin is not None
        timely = type(op.window_fn) is GlobalWindows
        verified = self._verified
        match lowered:
            case Lowered() if len(op.spec.output_tags) == 1:
                if lowered.window != asks or (lowered.micros is not None and not timely):
                    return node  # it asks for more than columns are told
                return LoweredStep(lowered, op.step, node, op, name, edge, verified=verified)
            case Ranged() if self._makes_columns and len(op.spec.output_tags) == 1 and not asks:
                if lowered.body.micros is not None and not timely:
                    return node
                return RangeStep(lowered, op.step, node, op, name, edge, verified=verified)
            case Folding() if lowered.feeds.window == asks:
                return FoldStep(lowered, op.fn, node, op, name, verified=verified)
            case _:
                return node

    def _of_group(
        self, known: GroupStep, op: SimpleDo, name: str, node: Node, edge: Edge
    ) -> Node:
        """A step of which it is known what it does with groups."""
        if isinstance(known, CollectedSides):
            return CollectedNode(known, node, edge)
        if isinstance(known, ReducedGroups):
            return self._reducing(known, op, name, node, edge)
        step = replace(op.step, function=turn_of(known, op.step.function))
        if known.each.window != (step.begin is not None):
            return node
        rows = begun_node(step.begin, step_node(step, op, name, edge))
        turns = LoweredStep(known.each, step, rows, op, name, edge, verified=self._verified)
        return JoinNode(known, turns, node, verified=self._verified)

    def _reducing(
        self, known: ReducedGroups, op: SimpleDo, name: str, node: Node, edge: Edge
    ) -> Node:
        """A step that asks what the values of its groups add up to."""
        lists, asks, each = GroupLists(), op.step.begin is not None, known.each
        if isinstance(each, Folding):
            if each.feeds.window != asks:
                return node

            def groups_of(values: list[Value], meta: Meta) -> None:
                node(list(map(lists.group, values)), meta)

            folds = FoldStep(each, op.fn, groups_of, op, name, verified=self._verified)
            return ReduceNode(known, folds, lists, node)
        if each.window != asks or each.micros is not None:
            return node
        function = op.step.function
        step = replace(op.step, function=lambda row: function(lists.group(row)))
        rows = begun_node(step.begin, step_node(step, op, name, edge))
        lowered = LoweredStep(each, step, rows, op, name, edge, verified=self._verified)
        return ReduceNode(known, lowered, lists, node)

    def _outputs(self, transform_id: str, op: SimpleDo, name: str) -> Edge:
        """Give where the results of a ParDo go: the main output, which knows the others."""
        proto = self._descriptor.transforms[transform_id]
        tags = op.spec.output_tags
        others: dict[str, Edge] = {}
        edges = {
            tag: self._edge_of(
                transform_id, index, proto.outputs[tag], window_fn=op.window_fn, tag=tag,
                frozen_type=frozen_type(op.spec.output_coders[index].wrapped_value_coder),
                step_name=name, others=others,
            )
            for index, tag in enumerate(tags)
        }
        main = edges.pop(tags[0] if len(tags) == 1 else MAIN_TAG)
        # What is put out for one output must not be held on the strength of another's type.
        main.frozen_type = main.frozen_type and all(e.frozen_type for e in edges.values())
        others.update(edges)
        return main


class WriterNode:
    """The end of a stage whose writer takes columns."""

    takes_columns = True

    def __init__(self, writer: ColumnTaker) -> None:
        self._writer = writer

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        self._writer.write(values, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        self._writer.write_columns(values, meta)


def begun_node(begin: Begin | None, node: Node) -> Node:
    """Tell a function that asks for more than its element of each batch before it runs."""
    if begin is None:
        return node

    def run(values: list[Value], meta: Meta) -> None:
        values, meta = begin(values, meta)
        if values:
            node(values, meta)

    return run


def _side_tags(proto: Proto) -> frozenset[str]:
    if proto.spec.urn != common_urns.primitives.PAR_DO.urn:
        return frozenset()
    return frozenset(_par_do(proto).side_inputs)


def _par_do(proto: Proto) -> Proto:
    return proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
