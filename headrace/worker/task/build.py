"""Builds the stages of one shard, and what stands between them: readers, groupers, side inputs.

Takes a task and the memory that keeps its parts, gives `Built`. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from headrace.plan.combines import Combined
from headrace.plan.ids import StageId
from headrace.plan.settings import ColumnsMode
from headrace.plan.sources import Impulse
from headrace.plan.supersteps import MERGE_SHARD, ChannelKind, SideInput
from headrace.worker.batched.known_combines import known_combine
from headrace.worker.beam_types import CombineFn, Decode, Proto
from headrace.worker.grouping.column_tables import Merging
from headrace.worker.grouping.grouper import Compact, Grouper
from headrace.worker.grouping.lateness import Lateness
from headrace.worker.protocol import SuperstepTask
from headrace.worker.sideinputs.arrivals import lookback_of
from headrace.worker.task.bundles import blaming
from headrace.worker.task.descriptors import Descriptors
from headrace.worker.task.element_merger import ElementMerger
from headrace.worker.task.memory import GroupingSpec, Memory, Need, SideSpec, SideView
from headrace.worker.task.outlets import Outlets, Push, PushColumns, Send
from headrace.worker.task.sorting import bind_sorter
from headrace.worker.task.stage import StageRun


class Built:
    """The parts of one shard in one superstep."""

    def __init__(self, task: SuperstepTask, shard: int, take: Send) -> None:
        self.descriptors = Descriptors(task.components, task.channels)
        self.outlets = Outlets(
            task, shard, self.descriptors, take, self._reader, self._column_reader
        )
        self.stages: list[StageRun] = []  # in the order of the plan
        self.readers: dict[int, tuple[StageRun, str]] = {}  # channel -> who reads it, and where
        self.groupers: dict[int, Grouper] = {}  # channel -> where its elements are grouped
        self.decoders: dict[int, Decode] = {}  # channel -> of its elements
        self.sides: dict[int, SideView] = {}  # channel -> its view
        self.mergers: dict[int, ElementMerger] = {}  # channel -> what puts its rows into order
        self.merging: dict[tuple[int, str], ElementMerger] = {}  # the same, by who reads

    def _reader(self, channel: int) -> Push:
        run, transform_id = self.readers[channel]
        return partial(run.push, transform_id)

    def _column_reader(self, channel: int) -> PushColumns | None:
        run, transform_id = self.readers[channel]
        return partial(run.push_columns, transform_id) if run.takes_columns(transform_id) else None

    def each_grouper(self) -> list[Grouper]:
        """Give every grouper once: several channels may fill one."""
        return list({id(grouper): grouper for grouper in self.groupers.values()}.values())


def build(
    task: SuperstepTask, shard: int, memory: Memory, take: Send, *, bounded: bool
) -> Built:
    """Build the stages of a shard.

    Args:
        task: what to build.
        shard: which part of it is here.
        memory: keeps what must outlive a bundle.
        take: takes super tuples of groupings on this very shard.
        bounded: nothing can reach a stage later: those that get nothing here are left out.
    """
    built = Built(task, shard, take)
    stages = task.superstep.stages
    for side in {s.channel: s for stage in stages for s in stage.side_inputs}.values():
        built.sides[side.channel] = _side(task, side, built.descriptors, memory)
    # By their ids: all that is known of a stage is much to hash, for every task.
    starving = _starving(task, shard) if bounded else set()
    # Readers before writers: a local writer must find the stage it hands over to.
    for stage, number in reversed(list(zip(stages, task.stage_numbers, strict=True))):
        if stage.stage_id in starving:
            continue
        with blaming(stage):
            run = StageRun(
                stage, number, built.descriptors.components, memory, built.outlets.writer,
                task.settings.max_bundle_elements, task.settings.columns, bounded=bounded,
            )
            _bind_state(task, run, built.descriptors, memory, bounded=bounded)
            _bind_numbers(task, run, built)
            bind_sorter(run, built.descriptors, memory, task.settings.group_memory_bytes)
            built.stages.insert(0, run)
            for port in stage.reads:
                _bind_reader(task, built, memory, run, port.transform_id, port.channel)
    return built


def _starving(task: SuperstepTask, shard: int) -> set[StageId]:
    """Give the stages that nothing can reach here: all their inputs are on other shards.

    They may not even begin and end a bundle: what they put out there would show in an ordered run.
    """
    found: set[StageId] = set()
    for stage in task.superstep.stages:
        if all(_is_elsewhere(task, port.channel, shard, found) for port in stage.reads):
            found.add(stage.stage_id)
    return found


def _is_elsewhere(
    task: SuperstepTask, index: int, shard: int, starving: Collection[StageId]
) -> bool:
    channel = task.channels[index]
    if isinstance(channel.source, Impulse):
        return index % task.shards != shard
    if channel.kind is ChannelKind.MERGE:
        return shard != MERGE_SHARD
    if channel.kind is ChannelKind.LOCAL:
        return all(stage_id in starving for stage_id in channel.source_stages)
    return False


def _side(
    task: SuperstepTask, side: SideInput, descriptors: Descriptors, memory: Memory
) -> SideView:
    # Several steps may read one channel, each with a mapping of its own: keep for all of them.
    readers = [
        (stage, s)
        for stage in task.superstep.stages
        for s in stage.side_inputs
        if s.channel == side.channel
    ]
    multimap = common_urns.side_inputs.MULTIMAP.urn
    lookbacks = [lookback_of(descriptors.mapping(stage, s)) for stage, s in readers]
    known = [lookback for lookback in lookbacks if lookback is not None]
    spec = SideSpec(
        channel=side.channel,
        windowed_coder=descriptors.coder(side.channel),
        windowing=descriptors.side_windowing(*readers[0]),
        multimap=any(s.access_pattern == multimap for _, s in readers),
        lookback=max(known) if len(known) == len(lookbacks) else None,
    )
    return memory.side(spec, [(s.transform_id, s.tag) for _, s in readers])


def _bind_state(
    task: SuperstepTask, run: StageRun, descriptors: Descriptors, memory: Memory, *, bounded: bool
) -> None:
    """Let a stage know what it keeps for later, and until when."""
    transforms = descriptors.transforms(run.stage)
    lateness = 0
    for transform_id in run.stateful:
        windowing = descriptors.main_windowing(transforms[transform_id])
        lateness = windowing.allowed_lateness.micros
        memory.cells.register(
            transform_id, run.number,
            descriptors.main_coder(transforms[transform_id]).key_coder(),
            windowing.windowfn.get_window_coder(), lateness,
        )
    kinds = {task.channels[port.channel].kind for port in run.stage.reads}
    if run.stateful and kinds <= {ChannelKind.KEYED, ChannelKind.MERGE} and not bounded:
        run.late = Lateness(lateness)
    if run.stage.side_inputs:
        needs = [
            Need(
                index, side.channel, descriptors.mapping(run.stage, side),
                descriptors.coder(side.channel).window_coder,
            )
            for index, side in enumerate(run.stage.side_inputs)
        ]
        main = descriptors.coder(run.stage.reads[0].channel)
        run.pending = memory.pending(run.number, needs, main, bool(run.stateful))
        run.lateness = max(
            descriptors.main_windowing(transforms[s.transform_id]).allowed_lateness.micros
            for s in run.stage.side_inputs
        )


def _bind_numbers(task: SuperstepTask, run: StageRun, built: Built) -> None:
    """Let a stage of an ordered run know how to encode what it numbers things by."""
    if run.order is None:
        return
    descriptors = built.descriptors
    for transform_id, proto in descriptors.transforms(run.stage).items():
        if _is_keyed(proto):
            key_coder = descriptors.main_coder(proto).key_coder()
            run.key_encoders[transform_id] = key_coder.get_impl().encode
    for port in run.stage.reads:
        channel, coder = task.channels[port.channel], descriptors.coder(port.channel)
        if channel.groups:
            pair = coder.wrapped_value_coder
            run.key_encoders[port.transform_id] = pair.key_coder().get_impl().encode
        else:
            run.encode = coder.wrapped_value_coder.get_impl().encode
        if channel.order_bytes:
            target = (run.number, port.transform_id)
            known = built.merging.setdefault(target, ElementMerger(channel.order_bytes))
            built.mergers[port.channel] = known
    for side in run.stage.side_inputs:
        if width := task.channels[side.channel].order_bytes:
            built.mergers.setdefault(side.channel, ElementMerger(width))


def _is_keyed(proto: Proto) -> bool:
    """Whether a transform is a ParDo with state cells or timers."""
    if proto.spec.urn != common_urns.primitives.PAR_DO.urn:
        return False
    payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
    return bool(payload.state_specs or payload.timer_family_specs)


def _bind_reader(
    task: SuperstepTask, built: Built, memory: Memory, run: StageRun, transform_id: str, index: int
) -> None:
    built.readers[index] = (run, transform_id)
    if not task.channels[index].groups:
        built.decoders[index] = built.descriptors.coder(index).get_impl().decode_from_stream
        return
    # Several channels may lead to one grouping: they fill one table.
    known = [
        built.groupers[port.channel]
        for port in run.stage.reads
        if port.transform_id == transform_id and port.channel in built.groupers
    ]
    built.groupers[index] = known[0] if known else _grouper(task, built, memory, run, index)


def _grouper(
    task: SuperstepTask, built: Built, memory: Memory, run: StageRun, index: int
) -> Grouper:
    found = built.descriptors.combine_fn(run.stage, index)
    combine_fn = None
    if task.channels[index].slices is not None or not run.bounded:  # else all values are kept
        combine_fn = found
    return memory.grouper(
        GroupingSpec(
            stage=run.number,
            windowed_coder=built.descriptors.coder(index),
            windowing=built.descriptors.windowing(index),
            memory_bytes=task.settings.group_memory_bytes,
            compact=None if combine_fn is None else _compact(combine_fn),
            slices=task.channels[index].slices,
            combination=built.descriptors.combination(index, combine_fn),
            merging=_merging(task, run, found, built.descriptors.combined(run.stage, index)),
        )
    )


def _merging(
    task: SuperstepTask,
    run: StageRun,
    combine_fn: CombineFn | None,
    lowered: Combined | None,
) -> Merging | None:
    """Give how accumulators are merged that come as columns; None: they are not."""
    if combine_fn is None or task.settings.columns is ColumnsMode.OFF or run.order is not None:
        return None
    known = known_combine(combine_fn, lowered)
    if known is None:
        return None
    verified = task.settings.columns is ColumnsMode.VERIFY
    merge = combine_fn.merge_accumulators if verified else None
    return Merging(known.accumulators, merge, run.stage.name)


def _compact(combine_fn: CombineFn) -> Compact:
    merge, create = combine_fn.merge_accumulators, combine_fn.create_accumulator
    return lambda found: [merge(found) if found else create()]
