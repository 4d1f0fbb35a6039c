"""One shard's part of one superstep: rows to stages, watermarks, what is kept, report.

The stages are built once and kept by the process; a batch is one epoch, a stream is many. Order of
an epoch: side inputs and pulses, then data, then stage by stage the watermark.
"""

from __future__ import annotations

import logging
import marshal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.order import source_number
from headrace.plan.settings import Settings
from headrace.plan.sources import Frame
from headrace.worker.beam_types import Value
from headrace.worker.ends.row_reader import RowReader
from headrace.worker.exchange.super_tuples import (
    REPORT_CHANNEL,
    PayloadKind,
    Rank,
    SuperTuple,
)
from headrace.worker.protocol import Epoch, ShardReport, StageReport, SuperstepTask
from headrace.worker.task.build import Built, build
from headrace.worker.task.bundles import blaming, call_finalisers
from headrace.worker.task.frame_rows import push_frame
from headrace.worker.task.group_door import GroupDoor
from headrace.worker.task.in_memory import InMemory
from headrace.worker.task.logs import TaskLogs
from headrace.worker.task.memory import Memory
from headrace.worker.task.outlets import Send
from headrace.worker.task.report_rows import row_of
from headrace.worker.task.sources import feed
from headrace.worker.task.stage import StageRun
from headrace.worker.task.stored import Stored
from headrace.worker.task.telling import Telling
from headrace.worker.task.trace import Trace
from headrace.worker.task.watermarks import (
    NOTHING_YET,
    EndOfTime,
    Pair,
    PulsedWatermarks,
    Watermarks,
    carriers_of_highs,
    pulses_of,
)

_LOG = logging.getLogger(__name__)


class ShardRun:
    """The stages of one superstep on one shard."""

    def __init__(
        self, task: SuperstepTask, shard: int, memory: Memory, marks: Watermarks, *, bounded: bool
    ) -> None:
        """Describe a shard; `bounded` and `streaming` make the two kinds that there are."""
        self._task = task
        self._shard = shard
        self._partition = shard  # of a DataFrame that feeds the task
        self._home = shard % task.shards  # a partition of a DataFrame is no shard
        self._memory = memory
        self._marks = marks
        self._bounded = bounded
        self._built: Built | None = None
        self._sides_in = False
        self._highs: dict[str, int] = {}  # of the DataFrame that was read here
        self._untimed = 0  # rows that were left out, as they had no event time
        self._arrived: dict[int, int] = {}  # elements that came to groupings, by channel
        self._finalisers: dict[str, list[Callable[[], None]]] = {}  # by attempt
        self._telling = Telling(samples=task.settings.samples)

    @classmethod
    def bounded(cls, task: SuperstepTask, shard: int) -> ShardRun:
        """Make the run of a batch: one epoch, all of it in memory."""
        return cls(task, shard, InMemory(), EndOfTime(), bounded=True)

    @classmethod
    def streaming(cls, task: SuperstepTask, shard: int) -> ShardRun:
        """Make a run that is kept between epochs, while its state lies in a state partition."""
        memory = Stored(task.superstep.index, shard, task.shards)
        return cls(task, shard, memory, PulsedWatermarks(task), bounded=False)

    @property
    def settings(self) -> Settings:
        """What the run is told beside its plan."""
        return self._task.settings

    @property
    def fed_by_frame(self) -> bool:
        """Whether the rows of a DataFrame come in, not super tuples."""
        return self._task.source is not None

    # -- one epoch

    def run_epoch(
        self,
        epoch: Epoch,
        send: Send,
        rows: Iterable[SuperTuple],
        frame: Iterable[Value] | None,
        partition: int | None = None,
    ) -> None:
        """Run one epoch, to its report.

        Args:
            epoch: which one.
            send: takes what leaves the task.
            rows: super tuples.
            frame: Arrow batches of a DataFrame, if one feeds the task.
            partition: which of the DataFrame's partitions; if not given, as the shard.
        """
        self._partition = self._shard if partition is None else partition
        with self._logs() as logs:
            try:
                built = self._run_epoch(epoch, send, rows, frame)
            finally:
                if self._bounded:
                    self._tear_down()  # while the driver still hears what DoFns log
            for row in logs.rows():
                built.outlets.send(row)

    def _run_epoch(
        self, epoch: Epoch, send: Send, rows: Iterable[SuperTuple], frame: Iterable[Value] | None
    ) -> Built:
        built = self._build()
        self.finalise(epoch.confirmed)
        self._begin(epoch, built, send)
        trace = self._traced(epoch, built)
        try:
            if frame is not None:
                self._take_frame(frame, epoch, built)
            else:
                self._take_rows(rows, built)
            report = self._finish(epoch, built)
        finally:
            self._memory.close()
            if trace is not None:
                trace.done()
        if self._bounded:
            self.finalise((epoch.attempt,))  # nothing follows that could undo the epoch
        else:
            built.outlets.send(row_of(report, self._home))
        return built

    def _logs(self) -> TaskLogs:
        return TaskLogs(self._task.settings.log_level, self._task.settings.ear)

    def _build(self) -> Built:
        if self._built is None:
            self._built = build(
                self._task, self._shard, self._memory, self._take, bounded=self._bounded
            )
        return self._built

    def _begin(self, epoch: Epoch, built: Built, send: Send) -> None:
        built.outlets.begin(send, epoch.direct)
        self._telling.begin(built)
        self._marks.begin(epoch)
        self._highs, self._arrived = {}, {}
        self._sides_in, self._untimed = False, 0
        self._memory.begin(epoch)
        for stage in built.stages:
            stage.begin(epoch)
            if stage.late is not None:
                stage.late.attach(epoch.watermarks.get((stage.number, self._shard), NOTHING_YET)[0])

    def _traced(self, epoch: Epoch, built: Built) -> Trace | None:
        """Let the stages say what they are about, if a worker was lost in this epoch before."""
        made = None
        if epoch.traces:
            made = Trace(epoch.traces, self._task.superstep.index, self._shard)
        for stage in built.stages:
            stage.trace = made
        return made

    # -- input

    def _take_frame(self, batches: Iterable[Value], epoch: Epoch, built: Built) -> None:
        source = self._task.source
        assert source is not None
        run, transform_id = built.readers[source]
        fed_by = self._task.channels[source].source
        step = fed_by.name if isinstance(fed_by, Frame) else "ReadFromSpark"
        now = ceiling = None
        if (clock := epoch.clocks.get(source)) is not None:
            # Rows without a time of their own get that of the epoch, unless the frame is bounded:
            # then they are as they are in a batch. The clock's own, as the machine's may go back.
            if clock.by_arrival and not epoch.ending:
                now = clock.watermark(epoch.now)
            ceiling = clock.ceiling(epoch.now)
        reader = RowReader(built.descriptors.coder(source), now=now, ceiling=ceiling, step=step)
        push_frame(
            batches, reader, run, transform_id,
            first_number=source_number(source, self._partition),
            max_bundle_elements=self._task.settings.max_bundle_elements,
        )
        self._highs, self._untimed = reader.highs, reader.dropped

    def _take_rows(self, rows: Iterable[SuperTuple], built: Built) -> None:
        depths, here = self._task.depths, self._task.superstep.index
        for row in rows:
            if row.channel == REPORT_CHANNEL or depths[row.channel] > here:
                built.outlets.send(row)
            elif row.kind == PayloadKind.PULSE:
                self._marks.hear(marshal.loads(row.payload))
            elif row.kind == PayloadKind.HIGHS:
                self._marks.seen(marshal.loads(row.payload))
            else:
                if row.rank != Rank.SIDE_INPUT and not self._sides_in:
                    self._open_sides(built)
                if row.numbers and row.channel in built.mergers:
                    for merged in built.mergers[row.channel].add(row):
                        self._take(merged)
                else:
                    self._take(row)
        self._open_sides(built)
        self._take_held(built)

    def _take_held(self, built: Built) -> None:
        """Nothing more comes: what waited for its place in the order goes on."""
        for merger in {id(m): m for m in built.mergers.values()}.values():
            for merged in merger.flush():
                self._take(merged)

    def _open_sides(self, built: Built) -> None:
        """All of the side inputs is in: see who need not wait any longer."""
        if self._sides_in:
            return
        for channel in built.sides.keys() & built.mergers.keys():
            for merged in built.mergers[channel].flush():
                self._take(merged)
        self._sides_in = True
        if not built.sides:
            return
        marks = {channel: self._marks.of(channel) for channel in built.sides}
        opened = {channel: side.advance(marks[channel]) for channel, side in built.sides.items()}
        for stage in built.stages:
            sides = stage.stage.side_inputs
            stage.release(
                [(i, window) for i, side in enumerate(sides) for window in opened[side.channel]],
                [marks[side.channel] for side in sides],
            )

    def _take(self, row: SuperTuple) -> None:
        built = self._built
        assert built is not None
        if row.rank == Rank.SIDE_INPUT:
            built.sides[row.channel].add_rows(row.payload)
            return
        grouper = built.groupers.get(row.channel)
        if grouper is not None:
            self._arrived[row.channel] = self._arrived.get(row.channel, 0) + row.elements
            grouper.add(row.kind, row.elements, row.payload)
            return
        run, transform_id = built.readers[row.channel]
        numbers = built.mergers[row.channel].numbers if row.channel in built.mergers else None
        run.push_rows(transform_id, row, built.decoders[row.channel], numbers)

    # -- time

    def _finish(self, epoch: Epoch, built: Built) -> ShardReport:
        """Move every stage's watermark, in their order; seal what is kept; tell how far it is."""
        marks: dict[int, Pair] = {}
        wakeups: list[int | None] = []
        for stage in built.stages:
            with blaming(stage.stage):  # window functions and triggers are the user's too
                marks[stage.number] = self._advance(stage, epoch, built)
            wakeups.append(stage.next_wakeup())
            stage_report = StageReport(stage.number, stage.bundles.metrics())
            built.outlets.send(row_of(stage_report, self._home))
        groupers = built.each_grouper()
        wakeups += [grouper.next_wakeup() for grouper in groupers]
        if not self._bounded:
            self._forget_sides(marks, built)
        self._telling.seals(built)
        sealed = self._memory.seal(epoch)
        figures = self._telling.figures(built, holds=self._task.superstep.index > 0)
        kept = self._keep_finalisers(epoch, built)
        if not self._bounded:
            self._send_pulses(marks, built)
        here = self._task.superstep.index
        return ShardReport(
            superstep=here,
            shard=self._shard,
            partition=sealed.partition,
            chain=sealed.chain,
            rows=sealed.rows,
            held_bytes=sealed.held_bytes,
            restored=sealed.restored,
            watermarks=marks if here else {},
            wakeup=min((w for w in wakeups if w is not None), default=None),
            highs=self._highs,
            untimed=self._untimed,
            finalisers=kept,
            outputs=built.outlets.counts,
            files=built.outlets.files,
            arrived=self._arrived,
            merged=built.outlets.shares,
            task=self._partition if self.fed_by_frame else self._shard,
            **figures,
        )

    def _advance(self, stage: StageRun, epoch: Epoch, built: Built) -> Pair:
        """Give the stage's input and output watermark."""
        last_in, last_out = epoch.watermarks.get((stage.number, self._shard), NOTHING_YET)
        watermark = self._marks.at_input(stage.stage, last_in)
        feed(stage, self._task, self._shard, epoch, built.descriptors)
        behind = watermark
        seen: set[int] = set()
        for port in stage.stage.reads:
            grouper = built.groupers.get(port.channel)
            if grouper is not None and id(grouper) not in seen:
                seen.add(id(grouper))
                grouper.advance(watermark, epoch.now, GroupDoor(stage, port.transform_id))
                behind = min(behind, grouper.hold())
        out = stage.advance(behind, last_out, partial(self._expire, stage))
        self._telling.advanced(stage, watermark, behind)
        self._marks.reached(stage.stage, out)
        return watermark, out

    def _expire(self, stage: StageRun, watermark: int) -> None:
        if stage.stateful and watermark < END:
            waits = stage.pending.waits if stage.pending is not None else _nobody_waits
            self._memory.cells.expire(stage.number, watermark, waits, stage.drop_timers)

    def _forget_sides(self, marks: dict[int, Pair], built: Built) -> None:
        for channel, side in built.sides.items():
            readers = [
                # Late elements, and those that wait for another side input, still ask for it.
                min(marks[s.number][0], END if s.pending is None else s.pending.hold())
                - s.lateness
                for s in built.stages
                if any(i.channel == channel for i in s.stage.side_inputs)
            ]
            side.expire(min([*readers, self._marks.of(channel)]))

    # -- output

    def _send_pulses(self, marks: dict[int, Pair], built: Built) -> None:
        """Tell every later superstep how far each channel has come."""
        if self._task.superstep.index == 0:
            if self.fed_by_frame and self._highs:
                for channel in carriers_of_highs(self._task):
                    self._to_all(channel, PayloadKind.HIGHS, 1, self._highs, built)
            return
        outs = [(stage.stage, marks[stage.number][1]) for stage in built.stages]
        for found in pulses_of(self._task, outs).values():
            pulse = list(found.items())
            self._to_all(pulse[0][0], PayloadKind.PULSE, len(pulse), pulse, built)

    def _to_all(
        self, channel: int, kind: PayloadKind, count: int, content: Any, built: Built
    ) -> None:
        payload = marshal.dumps(content, 2)
        for shard in range(self._task.shards):
            built.outlets.send(
                SuperTuple(shard, Rank.PULSE, channel, kind, 0, count, payload)
            )

    # -- callbacks that wait for the commit

    def _keep_finalisers(self, epoch: Epoch, built: Built) -> int:
        found = [f for stage in built.stages for f in stage.bundles.take_finalisers()]
        if found:
            self._finalisers[epoch.attempt] = found
        return len(found)

    def finalise(self, confirmed: Sequence[str]) -> None:
        """Run the callbacks of attempts that counted; forget those of attempts that did not."""
        for attempt in list(self._finalisers):
            found = self._finalisers.pop(attempt)
            if attempt in confirmed:
                call_finalisers(found)

    def tear_down(self) -> None:
        """Let every DoFn of a stream tear down; a batch does so at its end."""
        with self._logs():
            self._tear_down()

    def _tear_down(self) -> None:
        for stage in self._built.stages if self._built is not None else ():
            try:
                stage.bundles.teardown()
            except Exception:  # noqa: BLE001 (must not hide an earlier failure, nor undo a result)
                _LOG.warning("teardown failed in stage %s", stage.stage.name, exc_info=True)


def _nobody_waits(window: bytes) -> bool:  # noqa: ARG001 (whichever)
    return False
