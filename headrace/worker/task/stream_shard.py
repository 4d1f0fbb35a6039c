"""One shard's part of one superstep, epoch after epoch: rows to stages, watermarks, state, report.

What a `ShardRun` does for one epoch, this does for many: the stages are built once and kept by the
process, while state comes from the shard's store and goes back to it. Order of an epoch: side
inputs and pulses, then data, then stage by stage the watermark.
"""

from __future__ import annotations

import logging
import marshal
import os
import socket
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam import pvalue
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import StateError, TransportError
from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.clocks import MIN_TIME as BEGINNING
from headrace.plan.sources import Impulse
from headrace.plan.supersteps import ChannelKind, SideInput, Stage
from headrace.state.chain import Chain
from headrace.state.crash_points import Point, crash_point
from headrace.state.layout import PLACES
from headrace.state.lmdb_store import open_unit
from headrace.state.unit import Unit
from headrace.worker.batched.batches import BATCH_VALUES, batch_of
from headrace.worker.exchange.columns import RowReader
from headrace.worker.exchange.file_writer import FileWriter
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import (
    REPORT_CHANNEL,
    PayloadKind,
    Rank,
    SuperTuple,
)
from headrace.worker.exchange.writers import Writer
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.grouper import Compact, StreamGrouper
from headrace.worker.grouping.lateness import Lateness
from headrace.worker.protocol import Epoch, ShardReport, StageReport, SuperstepTask
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.views import StoredSide, StoredSides, lookback_of
from headrace.worker.task.logs import Findings
from headrace.worker.task.report_rows import row_of
from headrace.worker.task.shard import Send, ShardRun
from headrace.worker.task.stage import StageRun, blaming
from headrace.worker.task.stream_stage import StreamStage
from headrace.worker.task.trace import Trace
from headrace.worker.userstate.stored_cells import StoredCells

_LOG = logging.getLogger(__name__)


class StreamShard(ShardRun):
    """The stages of one superstep on one shard, kept between epochs."""

    def __init__(self, task: SuperstepTask, shard: int) -> None:
        super().__init__(task, shard, self._hand_on)
        self._target: Send | None = None
        self._side_inputs: Any = StoredSides()
        self._numbers = dict(zip(task.superstep.stages, task.stage_numbers, strict=True))
        self._cells: Any = None
        self._built = False
        self._unit: Unit | None = None
        self._epoch: Epoch | None = None
        self._marks: dict[int, int] = {}  # channel -> watermark, as pulses and stages tell
        self._heard: dict[int, int] = {}  # channel -> pulses that came
        self._highs: dict[str, int] = {}
        self._outputs: dict[int, int] = {}  # output channel -> rows that left the plan
        self._files: dict[int, list[str]] = {}  # output channel -> files that hold them
        self._sides_in = False
        self._untimed = 0  # rows that were left out, as they had no event time
        self._finalisers: dict[str, list[Callable[[], None]]] = {}  # by attempt

    def _hand_on(self, row: SuperTuple) -> None:
        assert self._target is not None
        if row.kind == PayloadKind.COLUMNS:
            self._outputs[row.channel] = self._outputs.get(row.channel, 0) + row.elements
        self._target(row)

    # -- building, once

    def _channel_writer(self, index: int) -> Writer:
        if index not in self._task.direct:
            return super()._channel_writer(index)
        return FileWriter(
            index,
            self._task.channels[index].label,
            pa.ipc.read_schema(pa.py_buffer(dict(self._task.schemas)[index])),
            folder=partial(self._folder_of, index),
            wrote=partial(self._wrote, index),
            shard=self._shard,
            super_tuple_bytes=self._task.settings.super_tuple_bytes,
        )

    def _folder_of(self, index: int) -> str:
        assert self._epoch is not None
        return self._epoch.direct[index]

    def _wrote(self, index: int, name: str, rows: int) -> None:
        self._outputs[index] = self._outputs.get(index, 0) + rows
        self._files.setdefault(index, []).append(name)

    def _make_cells(self) -> Any:
        self._cells = StoredCells(self._side_inputs)
        return self._cells

    def _make_side(self, side: SideInput) -> Any:
        coder = self._coder(side.channel)
        # Several steps may read one channel, each with a mapping of its own: keep for all of them.
        readers = [
            (stage, s)
            for stage in self._task.superstep.stages
            for s in stage.side_inputs
            if s.channel == side.channel
        ]
        multimap = any(
            s.access_pattern == common_urns.side_inputs.MULTIMAP.urn for _, s in readers
        )
        lookbacks = [lookback_of(self._mapping(stage, s)) for stage, s in readers]
        known = [lookback for lookback in lookbacks if lookback is not None]
        lookback = max(known) if len(known) == len(lookbacks) else None
        return StoredSide(
            side.channel, coder, self._side_windowing(*readers[0]), multimap, lookback
        )

    def _mapping(self, stage: Stage, side: SideInput) -> Any:
        payload = beam_runner_api_pb2.ParDoPayload.FromString(
            self._transforms(stage)[side.transform_id].spec.payload
        )
        data = pvalue.SideInputData.from_runner_api(payload.side_inputs[side.tag], self._context)
        return data.window_mapping_fn

    def _side_windowing(self, stage: Stage, side: SideInput) -> Any:
        proto = self._transforms(stage)[side.transform_id]
        pcoll = self._components.pcollections[proto.inputs[side.tag]]
        return self._context.windowing_strategies.get_by_id(pcoll.windowing_strategy_id)

    def _make_stage(self, stage: Stage, cells: Any) -> StageRun:
        run = StreamStage(
            stage, self._numbers[stage], self._components, cells, self._make_writer,
            self._task.settings.max_bundle_elements,
        )
        transforms = self._transforms(stage)
        for transform_id in run.stateful:
            proto = transforms[transform_id]
            windowing = self._main_windowing(proto)
            coder = self._main_coder(proto)
            cells.register(
                transform_id, run.number, coder.key_coder(),
                windowing.windowfn.get_window_coder(), windowing.allowed_lateness.micros,
            )
        kinds = {self._task.channels[port.channel].kind for port in stage.reads}
        if run.stateful and kinds == {ChannelKind.KEYED}:
            run.late = Lateness(windowing.allowed_lateness.micros)
        if stage.side_inputs:
            run.pending = self._make_pending(run)
            run.lateness = max(
                self._main_windowing(transforms[s.transform_id]).allowed_lateness.micros
                for s in stage.side_inputs
            )
        return run

    def _main_pcoll(self, proto: Any) -> Any:
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        (main,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
        return self._components.pcollections[main]

    def _main_windowing(self, proto: Any) -> Any:
        return self._context.windowing_strategies.get_by_id(
            self._main_pcoll(proto).windowing_strategy_id
        )

    def _main_coder(self, proto: Any) -> Any:
        return self._context.coders.get_by_id(self._main_pcoll(proto).coder_id)

    def _make_pending(self, run: StreamStage) -> PendingGraph:
        sides = []
        for index, side in enumerate(run.stage.side_inputs):
            sides.append(
                Side(
                    index=index, mapping=self._mapping(run.stage, side),
                    channel=self._sides[side.channel],
                    window_coder=self._coder(side.channel).window_coder,
                )
            )
        (port,) = {port.channel for port in run.stage.reads[:1]}
        coder = self._coder(port)
        place = None
        if run.stateful:
            of = ShardOf(coder.wrapped_value_coder.key_coder(), PLACES)
            place = of.any
        return PendingGraph(run.number, sides, coder, place)

    def _make_grouper(self, index: int, run: StageRun) -> Any:
        channel = self._task.channels[index]
        assert isinstance(run, StreamStage)
        combine_fn = self._combine_fn(run, index)
        return make_stream_grouper(
            run.number, self._coder(index), self._windowing(channel),
            self._task.settings.group_memory_bytes,
            None if combine_fn is None else _compact(combine_fn),
            channel.slices, self._combination(index, combine_fn),
        )

    def _starves(self, stage: Stage) -> bool:
        del stage  # later epochs bring pulses to every shard
        return False

    @property
    def _keeps_state(self) -> bool:
        return bool(self._groupers or self._sides) or any(
            stage.keeps_state for stage in self._streams()
        )

    def _streams(self) -> list[StreamStage]:
        return [stage for stage in self._stages if isinstance(stage, StreamStage)]

    @property
    def fed_by_frame(self) -> bool:
        """Whether the rows of a DataFrame come in, not super tuples."""
        return self._task.source is not None

    def tear_down(self) -> None:
        """Let every DoFn tear down."""
        self._teardown()

    # -- one epoch

    def run_epoch(
        self, epoch: Epoch, send: Send, rows: Iterable[SuperTuple], frame: Iterable[Any] | None
    ) -> None:
        """Run one epoch, to its report; `frame` are Arrow batches of a DataFrame, if one feeds."""
        self._target = send
        self._epoch = epoch
        with Findings(self._task.settings.log_level, self._task.settings.ear) as findings:
            if not self._built:
                self._build()
                self._built = True
            self.finalise(epoch.confirmed)
            self._begin_epoch(epoch)
            trace = self._traced(epoch)
            try:
                if frame is not None:
                    self._take_stream(frame, epoch)
                else:
                    self._take_rows(rows)
                    self._open_sides()
                report = self._finish_epoch(epoch)
            finally:
                if self._unit is not None:
                    self._unit.close()
                    self._unit = None
                if trace is not None:
                    trace.done()
            self._send(row_of(report, self._shard % self._task.shards))
            for row in findings.rows():
                self._send(row)

    def _traced(self, epoch: Epoch) -> Trace | None:
        """Let the stages say what they are about, if a worker was lost in this epoch before."""
        made = None
        if epoch.traces:
            made = Trace(epoch.traces, self._task.superstep.index, self._shard)
        for stage in self._streams():
            stage.trace = made
        return made

    def _begin_epoch(self, epoch: Epoch) -> None:
        here, shard = self._task.superstep.index, self._shard
        self._marks, self._heard, self._highs, self._outputs = {}, {}, {}, {}
        self._files = {}
        self._sides_in, self._untimed = False, 0
        if self._keeps_state:
            unit = f"{here}-{shard}"
            former = epoch.former.get(here, ()) if unit not in epoch.chains else ()
            local = epoch.local.open(_executor())
            try:
                self._unit = open_unit(
                    local, epoch.files, unit, epoch.chains.get(unit, Chain()),
                    from_chains=former, shard=shard, shards=self._task.shards, run=epoch.run,
                )
            except OSError as error:
                msg = (
                    f"the local copy of state in {local} cannot be used: {error}. Nothing is lost: "
                    "make room or mend the folder (--state_dir), and start the pipeline again"
                )
                raise StateError(msg) from error
        for stage in self._streams():
            stage.attach(self._unit, epoch.now, epoch.bundle_seconds, epoch.drain)
        if self._unit is None:
            return
        self._cells.attach(self._unit)
        for side in self._sides.values():
            side.attach(self._unit, BEGINNING)
        for stage in self._streams():
            if stage.late is not None:
                stage.late.attach(
                    epoch.watermarks.get((stage.number, shard), (BEGINNING, BEGINNING))[0]
                )
        for run, grouper in self._each_grouper():
            last, _ = epoch.watermarks.get((run.number, shard), (BEGINNING, BEGINNING))
            grouper.attach(self._unit, last, epoch.now)

    def _each_grouper(self) -> list[tuple[StreamStage, StreamGrouper]]:
        found = {id(g): (self._readers[index][0], g) for index, g in self._groupers.items()}
        return [(run, g) for run, g in found.values() if isinstance(run, StreamStage)]

    def _take_stream(self, frame: Iterable[Any], epoch: Epoch) -> None:
        source = self._task.source
        assert source is not None
        run, transform_id = self._readers[source]
        clock = epoch.clocks[source]
        reader = RowReader(
            self._coder(source),
            # Rows without a time of their own get that of the epoch, unless the frame is bounded:
            # then they are as they are in a batch. The clock's own, as the machine's may go back.
            now=None if epoch.ending else clock.watermark(epoch.now) if clock.by_arrival else None,
            ceiling=clock.ceiling(epoch.now),
            step=self._step_of(source),
        )
        most = min(BATCH_VALUES, self._task.settings.max_bundle_elements or BATCH_VALUES)
        for batch in frame:
            for rows, meta in reader.timed(batch, most):
                run.push(transform_id, rows, meta)
        self._highs, self._untimed = reader.highs, reader.dropped

    def _take_rows(self, rows: Iterable[SuperTuple]) -> None:
        depths, here = self._task.depths, self._task.superstep.index
        for row in rows:
            if row.channel == REPORT_CHANNEL or depths[row.channel] > here:
                self._send(row)
            elif row.kind == PayloadKind.PULSE:
                for channel, mark in marshal.loads(row.payload):
                    self._marks[channel] = min(self._marks.get(channel, END), mark)
                    self._heard[channel] = self._heard.get(channel, 0) + 1
            elif row.kind == PayloadKind.HIGHS:
                for partition, high in marshal.loads(row.payload).items():
                    self._highs[partition] = max(self._highs.get(partition, high), high)
            elif row.rank == Rank.SIDE_INPUT:
                self._sides[row.channel].add_rows(row.payload)
            else:
                if not self._sides_in:
                    self._open_sides()
                self._take(row)

    def _open_sides(self) -> None:
        """All of the side inputs is in: see who need not wait any longer."""
        if self._sides_in:
            return
        self._sides_in = True
        if not self._sides:
            return
        marks = {channel: self._mark(channel) for channel in self._sides}
        opened = {channel: side.advance(marks[channel]) for channel, side in self._sides.items()}
        for stage in self._streams():
            sides = stage.stage.side_inputs
            stage.release(
                [(i, window) for i, side in enumerate(sides) for window in opened[side.channel]],
                [marks[side.channel] for side in sides],
            )

    def _mark(self, channel: int) -> int:
        """Give the watermark of a channel: of its sources, and of the stages that wrote to it."""
        epoch = self._epoch
        assert epoch is not None
        heard, expected = self._heard.get(channel, 0), self._task.pulses[channel]
        if heard != expected:
            msg = (
                f"channel {channel} ({self._task.channels[channel].label}) got {heard} of "
                f"{expected} pulses: a part of the epoch is missing"
            )
            raise TransportError(msg)
        marks = [self._marks.get(channel, END)]
        for source in self._task.roots[channel]:
            clock = epoch.clocks.get(source)
            if clock is None:
                marks.append(epoch.sources.get(source, END))
                continue
            if source == epoch.feeding:
                clock = clock.seen(self._highs, epoch.now)
                clock = clock.finished() if epoch.ending else clock
            marks.append(END if epoch.drain else clock.watermark(epoch.now))
        return min(marks)

    def _finish_epoch(self, epoch: Epoch) -> ShardReport:
        here, shard = self._task.superstep.index, self._shard
        marks: dict[int, tuple[int, int]] = {}
        wakeups: list[int | None] = []
        for stage in self._streams():
            with blaming(stage.stage):
                marks[stage.number] = self._advance(stage, epoch)
            wakeups.append(stage.next_wakeup() if self._unit is not None else None)
            told = StageReport(stage.number, stage.metrics())
            self._send(row_of(told, self._shard % self._task.shards))
        groupers = [g for _, g in self._each_grouper()]
        wakeups += [g.next_wakeup() for g in groupers]
        waiting = sum(s.pending.count() for s in self._streams() if s.pending is not None)
        chain, rows, size = None, 0, 0
        if self._unit is not None:
            self._forget_sides(marks)
            for part in (self._cells, *self._sides.values(), *groupers, *self._streams()):
                part.flush()
            stem = f"{epoch.number:08d}-{epoch.incarnation}-{uuid.uuid4().hex[:12]}"
            unit = f"{here}-{shard}"
            crash_point(Point.BEFORE_SEAL, epoch.number, epoch.attempt, unit)
            chain = self._unit.seal(stem)
            crash_point(Point.AFTER_SEAL, epoch.number, epoch.attempt, unit)
            rows, size = self._unit.rows_held(), self._unit.bytes_held()
        kept = self._keep_finalisers(epoch)
        self._send_pulses(marks)
        return ShardReport(
            superstep=here,
            shard=shard,
            unit="" if chain is None else f"{here}-{shard}",
            chain=chain,
            rows=rows,
            held_bytes=size,
            restored=self._unit is not None and self._unit.restored,
            watermarks=marks if here else {},
            wakeup=min((w for w in wakeups if w is not None), default=None),
            highs=self._highs if self._task.source is not None else {},
            dropped=sum(g.dropped for g in groupers)
            + sum(s.late.dropped for s in self._streams() if s.late is not None),
            untimed=self._untimed,
            pushed_back=waiting,
            finalisers=kept,
            outputs=self._outputs,
            files=self._files,
            host=f"{socket.gethostname()}/{os.getpid()}",
        )

    def _advance(self, stage: StreamStage, epoch: Epoch) -> tuple[int, int]:
        """Give the stage's input and output watermark."""
        if self._task.superstep.index == 0:
            self._feed(stage, epoch)
            stage.advance(BEGINNING, BEGINNING, lambda _: None)
            return BEGINNING, BEGINNING  # superstep 0 holds nothing back: readers ask the sources
        last_in, last_out = epoch.watermarks.get(
            (stage.number, self._shard), (BEGINNING, BEGINNING)
        )
        marks: list[int] = []
        seen: set[int] = set()
        for port in stage.stage.reads:
            marks.append(self._read_mark(port.channel))
        self._feed(stage, epoch)
        watermark = max(last_in, min(marks, default=END))
        behind = watermark
        for port in stage.stage.reads:
            grouper = self._groupers.get(port.channel)
            if grouper is not None and id(grouper) not in seen:
                seen.add(id(grouper))
                push = partial(stage.push_groups, port.transform_id)
                grouper.advance(watermark, epoch.now, push)
                behind = min(behind, grouper.hold())
        out = stage.advance(behind, last_out, partial(self._expire, stage))
        for port in stage.stage.writes:
            if self._task.channels[port.channel].kind is ChannelKind.LOCAL:
                self._marks[port.channel] = min(self._marks.get(port.channel, END), out)
        return watermark, out

    def _read_mark(self, index: int) -> int:
        channel = self._task.channels[index]
        if channel.kind is ChannelKind.SOURCE:
            return END  # an impulse, or nothing ever: the other sources are in superstep 0
        return self._mark(index)

    def _feed(self, stage: StreamStage, epoch: Epoch) -> None:
        """Push what no row brings: impulses, and the elements of test streams."""
        for port in stage.stage.reads:
            channel = self._task.channels[port.channel]
            if channel.kind is not ChannelKind.SOURCE or not self._owns(port.channel):
                continue
            if isinstance(channel.source, Impulse) and epoch.first:
                stage.push(port.transform_id, [b""], GlobalWindows.windowed_value(b""))
            for index, coder_id, elements in epoch.arrivals:
                if index == port.channel:
                    decode = self._context.coders.get_by_id(coder_id).decode
                    found = [_scripted(decode(data), micros) for data, micros in elements]
                    if found:
                        stage.push(port.transform_id, *batch_of(found))

    def _expire(self, stage: StreamStage, watermark: int) -> None:
        if stage.stateful and watermark < END:
            waits = stage.pending.waits if stage.pending is not None else _nobody_waits
            self._cells.expire(stage.number, watermark, waits, stage.drop_timers)

    def _forget_sides(self, marks: dict[int, tuple[int, int]]) -> None:
        for channel, side in self._sides.items():
            readers = [
                # Late elements, and those that wait for another side input, still ask for it.
                min(marks[s.number][0], s.pending.hold()) - s.lateness
                for s in self._streams()
                if any(i.channel == channel for i in s.stage.side_inputs)
            ]
            side.expire(min([*readers, self._mark(channel)]))

    def _send_pulses(self, marks: dict[int, tuple[int, int]]) -> None:
        """Tell every later superstep how far each channel has come."""
        here = self._task.superstep.index
        if here == 0:
            self._send_highs()
            return
        told: dict[int, dict[int, int]] = {}  # depth -> channel -> watermark
        for stage in self._streams():
            for port in stage.stage.writes:
                channel = self._task.channels[port.channel]
                if channel.kind in (ChannelKind.LOCAL, ChannelKind.OUTPUT):
                    continue
                at = told.setdefault(self._task.depths[port.channel], {})
                at[port.channel] = min(at.get(port.channel, END), marks[stage.number][1])
        for found in told.values():
            payload = marshal.dumps(list(found.items()), 2)
            for shard in range(self._task.shards):
                self._send(
                    SuperTuple(
                        shard, Rank.PULSE, next(iter(found)), PayloadKind.PULSE, 0, len(found),
                        payload,
                    )
                )

    def _send_highs(self) -> None:
        source = self._task.source
        if source is None or not self._highs:
            return
        fed = {
            self._task.depths[c]: c for c, roots in enumerate(self._task.roots) if source in roots
        }
        payload = marshal.dumps(self._highs, 2)
        for depth, channel in fed.items():
            if depth == 0 or self._task.channels[channel].kind is ChannelKind.OUTPUT:
                continue
            for shard in range(self._task.shards):
                self._send(
                    SuperTuple(shard, Rank.PULSE, channel, PayloadKind.HIGHS, 0, 1, payload)
                )

    # -- callbacks that wait for the commit

    def _keep_finalisers(self, epoch: Epoch) -> int:
        found = [f for stage in self._streams() for f in stage.take_finalisers()]
        if found:
            self._finalisers[epoch.attempt] = found
        return len(found)

    def finalise(self, confirmed: Sequence[str]) -> None:
        """Run the callbacks of attempts that counted; forget those of attempts that did not."""
        for attempt in list(self._finalisers):
            found = self._finalisers.pop(attempt)
            if attempt not in confirmed:
                continue
            for callback in found:
                try:
                    callback()
                except Exception:  # noqa: BLE001 (as in Beam: they must not fail the pipeline)
                    _LOG.warning("a finalisation callback failed", exc_info=True)


def _scripted(value: Any, micros: int) -> Any:
    """Give an element of a test stream its time, and the windows it may bring along."""
    if isinstance(value, WindowedValueHolder):
        return value.windowed_value
    return GlobalWindows.windowed_value(value, Timestamp(micros=micros))


def _executor() -> str:
    """Name the executor that this process works for, by the folders Spark gave it."""
    folders = os.environ.get("SPARK_EXECUTOR_DIRS", "")
    return f"executor-{zlib.crc32(folders.encode()):08x}"


def _nobody_waits(window: bytes) -> bool:
    del window
    return False


def _compact(combine_fn: Any) -> Compact:
    merge, create = combine_fn.merge_accumulators, combine_fn.create_accumulator
    return lambda found: [merge(found) if found else create()]
