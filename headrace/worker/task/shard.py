"""One shard's part of one superstep: which row goes to which stage.

Takes super tuples, pushes them into stages, forwards what is meant for later supersteps, and at the
end closes the stages in their order. Side inputs arrive before the data (see `frames.Rank`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import core
from apache_beam.transforms.window import GlobalWindows

from headrace.errors import TransportError
from headrace.plan.sources import Frame, Impulse
from headrace.plan.supersteps import Channel, ChannelKind, SideInput, Stage
from headrace.worker.batched.batches import BATCH_VALUES
from headrace.worker.batched.combining import builtin_of, owns_resources
from headrace.worker.batched.operations import ShardWrite
from headrace.worker.exchange.columns import ColumnWriter, RowReader
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import Fanout, GroupWriter, LocalWriter, RowWriter, Writer
from headrace.worker.grouping.slices import Combination
from headrace.worker.grouping.tables import make_grouper
from headrace.worker.grouping.value_bytes import ValueBytes
from headrace.worker.protocol import StageReport, SuperstepTask
from headrace.worker.sideinputs.side_inputs import SideChannel, SideInputs
from headrace.worker.task.logs import Findings
from headrace.worker.task.report_rows import row_of
from headrace.worker.task.stage import StageRun, blaming
from headrace.worker.userstate.cells import Cells

Send = Callable[[SuperTuple], None]

_LOG = logging.getLogger(__name__)
_MERGE = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn


class ShardRun:
    """The stages of one superstep on one shard."""

    def __init__(self, task: SuperstepTask, shard: int, send: Send) -> None:
        self._task = task
        self._shard = shard
        self._send = send
        self._components = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(task.components)
        self._context = pipeline_context.PipelineContext(self._components)
        self._stages: list[StageRun] = []
        self._readers: dict[int, tuple[StageRun, str]] = {}
        self._groupers: dict[int, Any] = {}
        self._decoders: dict[int, Any] = {}
        self._sides: dict[int, Any] = {}
        self._side_inputs: Any = SideInputs()

    def run(self, rows: Iterable[SuperTuple]) -> None:
        """Run to the end of the input."""
        self._run(lambda: self._take_rows(rows))

    def run_frame(self, source: int, batches: Iterable[Any]) -> None:
        """Run on the Arrow batches of one partition of a DataFrame."""
        self._run(lambda: self._take_frame(source, batches))

    def _run(self, take: Callable[[], None]) -> None:
        with Findings(self._task.settings.log_level, self._task.settings.ear) as findings:
            try:
                self._build()
                take()
                self._finish()
            finally:
                self._teardown()
            for row in findings.rows():
                self._send(row)

    def _take_frame(self, source: int, batches: Iterable[Any]) -> None:
        run, transform_id = self._readers[source]
        reader = RowReader(self._coder(source), step=self._step_of(source))
        most = min(BATCH_VALUES, self._task.settings.max_bundle_elements or BATCH_VALUES)
        for batch in batches:
            for rows, meta in reader.timed(batch, most):
                run.push(transform_id, rows, meta)

    def _step_of(self, source: int) -> str:
        """Give the name of the step that reads a DataFrame."""
        fed_by = self._task.channels[source].source
        return fed_by.name if isinstance(fed_by, Frame) else "ReadFromSpark"

    def _take_rows(self, rows: Iterable[SuperTuple]) -> None:
        depths, here = self._task.depths, self._task.superstep.index
        for row in rows:
            if row.channel == REPORT_CHANNEL or depths[row.channel] > here:
                self._send(row)
            elif row.rank == Rank.SIDE_INPUT:
                self._sides[row.channel].add_rows(row.payload)
            else:
                self._take(row)

    def _finish(self) -> None:
        numbers = dict(zip(self._task.superstep.stages, self._task.stage_numbers, strict=True))
        for stage in self._stages:
            number = numbers[stage.stage]
            self._close(stage, number)
        for stage in self._stages:
            stage.finalize()

    def _build(self) -> None:
        for side in (s for st in self._task.superstep.stages for s in st.side_inputs):
            if side.channel not in self._sides:
                self._sides[side.channel] = self._make_side(side)
            self._side_inputs.bind({(side.transform_id, side.tag): self._sides[side.channel]})
        cells = self._make_cells()
        # Readers before writers: a local writer must find the stage it hands over to.
        for stage in reversed(self._task.superstep.stages):
            if self._starves(stage):
                continue
            with blaming(stage):
                run = self._make_stage(stage, cells)
            self._stages.insert(0, run)
            for port in stage.reads:
                self._bind_reader(run, port.transform_id, port.channel)

    def _make_side(self, side: SideInput) -> Any:
        return SideChannel(self._coder(side.channel))

    def _make_cells(self) -> Any:
        return Cells(self._side_inputs)

    def _make_stage(self, stage: Stage, cells: Any) -> StageRun:
        return StageRun(
            stage, self._components, cells, self._make_writer,
            self._task.settings.max_bundle_elements,
        )

    def _make_grouper(self, index: int, run: StageRun) -> Any:
        channel = self._task.channels[index]
        windowing = self._windowing(channel)
        return make_grouper(
            self._coder(index), windowing, grouping_of(windowing),
            self._task.settings.group_memory_bytes, channel.slices,
            self._combination(index, self._combine_fn(run, index)) if channel.slices else None,
        )

    @staticmethod
    def _transforms(stage: Stage) -> Any:
        return beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms).transforms

    def _combine_fn(self, run: StageRun, index: int) -> Any | None:
        """Give what merges the values of a key, if all that follows the grouping is a combine."""
        transforms = self._transforms(run.stage)
        port = next(p for p in run.stage.reads if p.channel == index)
        (pcoll,) = transforms[port.transform_id].outputs.values()
        readers = [t for t in transforms.values() if pcoll in t.inputs.values()]
        if len(readers) != 1 or readers[0].spec.urn != _MERGE:
            return None
        payload = beam_runner_api_pb2.CombinePayload.FromString(readers[0].spec.payload)
        combine_fn = core.CombineFn.from_runner_api(payload.combine_fn, self._context)
        return None if owns_resources(combine_fn) else combine_fn  # else nobody has set it up here

    def _combination(self, index: int, combine_fn: Any | None) -> Combination:
        if combine_fn is None:
            return Combination()
        values = ValueBytes(self._coder(index).wrapped_value_coder.value_coder())
        return Combination(
            combine_fn.merge_accumulators,
            builtin_of(combine_fn),
            lambda found: values.decode(values.encode(found)),
        )

    def _starves(self, stage: Stage) -> bool:
        """Whether nothing can reach a stage here: all its inputs are impulses of other shards."""
        sources = [self._task.channels[port.channel].source for port in stage.reads]
        return all(isinstance(source, Impulse) for source in sources) and not any(
            self._owns(port.channel) for port in stage.reads
        )

    def _bind_reader(self, run: StageRun, transform_id: str, index: int) -> None:
        channel = self._task.channels[index]
        self._readers[index] = (run, transform_id)
        if channel.groups:
            # Several channels may lead to one grouping: they fill one table.
            known = [
                self._groupers[port.channel]
                for port in run.stage.reads
                if port.transform_id == transform_id and port.channel in self._groupers
            ]
            self._groupers[index] = known[0] if known else self._make_grouper(index, run)
        else:
            self._decoders[index] = self._coder(index).get_impl().decode_from_stream

    def _take(self, row: SuperTuple) -> None:
        grouper = self._groupers.get(row.channel)
        if grouper is not None:
            grouper.add(row.kind, row.elements, row.payload)
            return
        if row.kind != PayloadKind.ROWS:
            msg = f"channel {row.channel} was sent a payload of kind {row.kind}"
            raise TransportError(msg)
        run, transform_id = self._readers[row.channel]
        run.push_rows(transform_id, row.payload, self._decoders[row.channel])

    def _close(self, run: StageRun, number: int) -> None:
        emitted: set[int] = set()
        for port in run.stage.reads:
            channel = self._task.channels[port.channel]
            grouper = self._groupers.get(port.channel)
            if grouper is not None:
                if id(grouper) not in emitted:
                    emitted.add(id(grouper))
                    with blaming(run.stage):  # window functions and triggers are the user's too
                        grouper.emit(partial(run.push_groups, port.transform_id))
            elif isinstance(channel.source, Impulse) and self._owns(port.channel):
                run.push(port.transform_id, [b""], GlobalWindows.windowed_value(b""))
        run.close_input()
        self._send(row_of(StageReport(number, run.metrics()), self._shard % self._task.shards))

    def _owns(self, index: int) -> bool:
        """Whether an impulse fires here: on one shard only, another one for each source."""
        return index % self._task.shards == self._shard

    def _teardown(self) -> None:
        for run in self._stages:
            try:
                run.teardown()
            except Exception:  # noqa: BLE001 (must not hide an earlier failure, nor undo a result)
                _LOG.warning("teardown failed in stage %s", run.stage.name, exc_info=True)

    def _coder(self, index: int) -> Any:
        return self._context.coders.get_by_id(self._task.channels[index].coder_id)

    def _windowing(self, channel: Channel) -> Any:
        return self._context.windowing_strategies.get_by_id(channel.windowing_id)

    def _make_writer(self, op: ShardWrite) -> Writer:
        writers = [self._channel_writer(index) for index in op.channels]
        return writers[0] if len(writers) == 1 else Fanout(writers)

    def _channel_writer(self, index: int) -> Writer:
        channel, settings = self._task.channels[index], self._task.settings
        coder, shards = self._coder(index), self._task.shards
        if channel.kind is ChannelKind.OUTPUT:
            return ColumnWriter(
                index,
                channel.label,
                pa.ipc.read_schema(pa.py_buffer(dict(self._task.schemas)[index])),
                self._send,
                shard=self._shard % shards,
                super_tuple_bytes=settings.super_tuple_bytes,
            )
        if channel.groups:
            local = channel.kind is ChannelKind.LOCAL
            return GroupWriter(
                index,
                coder,
                self._grouping(channel),
                self._take if local else self._send,
                shards=shards,
                super_tuple_bytes=settings.super_tuple_bytes,
                fixed_shard=self._shard if local else None,
                sliced=channel.slices is not None,
            )
        if channel.kind is ChannelKind.LOCAL:
            run, transform_id = self._readers[index]
            return LocalWriter(partial(run.push, transform_id))
        side = channel.kind is ChannelKind.BROADCAST
        keyed = channel.kind is ChannelKind.KEYED
        return RowWriter(
            index,
            coder,
            self._send,
            shards=shards,
            first_shard=self._shard,
            super_tuple_bytes=settings.super_tuple_bytes,
            rank=Rank.SIDE_INPUT if side else Rank.DATA,
            shard_of=ShardOf(coder.wrapped_value_coder.key_coder(), shards) if keyed else None,
            copy_to_all=side,
        )

    def _grouping(self, channel: Channel) -> Grouping:
        return grouping_of(self._windowing(channel))
