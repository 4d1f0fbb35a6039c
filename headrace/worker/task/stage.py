"""Runs one stage on one shard, epoch after epoch: bundles, timers, residuals, elements that wait.

Takes elements through `push*`, then the epoch's watermark through `advance`; gives its output
watermark. A batch is one epoch whose watermark is the end of time; residuals are waited for there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.clocks import MIN_TIME
from headrace.plan.settings import ColumnsMode
from headrace.plan.supersteps import Stage
from headrace.worker.batched.batches import (
    BATCH_VALUES,
    Meta,
    in_millis,
    numbered,
    pick,
)
from headrace.worker.batched.cause import caused_by
from headrace.worker.batched.chains import pick_one
from headrace.worker.batched.column_batches import as_rows
from headrace.worker.beam_types import Decode, Proto, Value
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.order_numbers import Numbers, widened
from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.grouping.lateness import Lateness
from headrace.worker.protocol import Epoch
from headrace.worker.task.bundles import Bundles, MakeWriter
from headrace.worker.task.by_time import run_by_time
from headrace.worker.task.firing_numbers import (
    group_numbers,
    numbered_by_time,
    released_numbers,
    timer_number,
)
from headrace.worker.task.memory import Memory, Opened, Pending, Sorter
from headrace.worker.task.row_batches import row_batches
from headrace.worker.task.splittables import splittables_of
from headrace.worker.task.trace import Trace
from headrace.worker.task.watermarks import at_output
from headrace.worker.userstate.timers import DueTimer


class StageRun:
    """One stage, from setup to teardown."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        components: Proto,
        memory: Memory,
        make_writer: MakeWriter,
        max_bundle_elements: int,
        columns: ColumnsMode = ColumnsMode.ON,
        *,
        bounded: bool,
    ) -> None:
        self.stage = stage
        self.number = number  # its place in the plan
        self.bounded = bounded
        self._timers = memory.timers(number)
        self.bundles = Bundles(
            stage, components, memory.cells, self._timers, make_writer,
            # Where bundles are cut depends on the shards: in an ordered run nothing may show it.
            max_bundle_elements if stage.order is None else 0,
            self._split_off,
            columns,
        )
        self._splittables = splittables_of(
            self.bundles, partial(memory.residuals, number), stage.order, bounded=bounded
        )
        self.pending: Pending | None = None  # if the stage begins with side inputs
        self.late: Lateness | None = None  # if elements go to a stateful ParDo one by one
        self.sorter: Sorter | None = None  # if elements come in the order of event time
        self.trace: Trace | None = None  # if a worker was lost in this epoch before
        self.holds: dict[str, int] = {}  # what held the output watermark, in the last epoch
        self.lateness = 0  # how long elements may come after the end of their windows
        self.order = stage.order  # how what leaves is numbered, if the run is ordered
        self._shifts = {p.transform_id: p.order.shift for p in stage.reads if p.order is not None}
        self.key_encoders: dict[str, Callable[[Value], bytes]] = {}  # by transform
        self.encode: Callable[[Value], bytes] | None = None  # of whole elements
        self._now = 0

    @property
    def stateful(self) -> list[str]:
        """The transforms that have state."""
        return self.bundles.stateful

    @property
    def _steps(self) -> tuple[str, ...]:
        return self.stage.operators or (self.stage.name,)

    def begin(self, epoch: Epoch) -> None:
        """Begin an epoch; what an epoch that failed left behind is forgotten."""
        self._now = epoch.now
        if self._splittables is not None:
            self._splittables.begin(epoch)
        self.bundles.forget_epoch()

    # -- elements

    def push(self, transform_id: str, values: list[Value], meta: Meta) -> None:
        """Process a batch: what is not too late, and what has its side inputs.

        In an ordered run the meta has the numbers of what caused the elements.
        """
        if self.order is not None and (shift := self._shifts[transform_id]):
            meta = meta._replace(numbers=widened(meta.numbers, shift))
        self._admit(transform_id, values, meta)

    def _admit(self, transform_id: str, values: list[Value], meta: Meta) -> None:
        if self.late is not None:
            in_time = self.late.in_time(values, meta)
            if in_time is None:
                return
            values, meta = in_time
        if self.pending is not None:
            admitted = self.pending.admit(values, meta)
            if admitted is None:
                return
            values, meta = admitted
        self._enter(transform_id, values, meta)

    def takes_columns(self, transform_id: str) -> bool:
        """Whether batches of columns may come in here, and are of use."""
        return not self._needs_objects and self.bundles.takes_columns(transform_id)

    def takes_pairs(self) -> bool:
        """Whether groups may come in while they are pairs of columns."""
        looked_at = self.trace is not None or self.bundles.see is not None
        return not (looked_at or self._needs_objects) and self.bundles.columns_are_on

    @property
    def _needs_objects(self) -> bool:
        # These look at objects.
        needs = (self.order, self.late, self.pending, self.sorter, self._splittables)
        return any(need is not None for need in needs)

    def push_columns(self, transform_id: str, values: ColumnValues, meta: Meta) -> None:
        """Process a batch of columns, where `takes_columns` says so."""
        if self.trace is None:
            self.bundles.run_columns(transform_id, values, meta)
            return
        for part, its in as_rows(values, meta):
            self._run(transform_id, part, its)

    def push_groups(self, transform_id: str, groups: list[Value], meta: Meta) -> None:
        """Push what a grouping made.

        Beam's runners hand groups over encoded, with whole milliseconds; so the end of a window is
        the same time here as after the next exchange.
        """
        if self.order is None:
            self.push(transform_id, groups, in_millis(meta))
        else:  # a grouping's stage has one input, and these are the stage's own numbers
            numbers = group_numbers(self.order, self.key_encoders[transform_id], groups, meta)
            self._admit(transform_id, groups, numbered(groups, in_millis(meta), numbers))

    def push_rows(
        self, transform_id: str, row: SuperTuple, decode: Decode, numbers: Numbers | None = None
    ) -> None:
        """Process encoded windowed values; in an ordered run, with their numbers."""
        done = 0
        for values, meta in row_batches(row, decode, self.bundles.limit or BATCH_VALUES):
            if numbers is not None:
                meta = numbered(values, meta, numbers[done : done + len(values)])
                done += len(values)
            self.push(transform_id, values, meta)

    def release(self, opened: Opened, watermarks: list[int]) -> None:
        """Process what waited for side inputs that are there now."""
        if self.pending is None:
            return
        (port,) = {port.transform_id for port in self.stage.reads}
        for values, meta in self.pending.release(opened, watermarks):
            if self.order is not None:
                numbers = released_numbers(self.order, self.encode, values, meta)
                meta = numbered(values, meta, numbers)
            self._enter(port, values, meta)

    def _enter(self, transform_id: str, values: list[Value], meta: Meta) -> None:
        if self.sorter is None:
            self._run(transform_id, values, meta)
        else:
            self.sorter.add(values, meta)

    def _run(self, transform_id: str, values: list[Value], meta: Meta) -> None:
        if self.trace is not None:
            if len(values) > 1:
                for i, value in enumerate(values):
                    self._run(transform_id, [value], pick(meta, [i]))
                return
            self.trace.element(self._steps, values[0], pick_one(meta).timestamp_micros)
        if self.bounded or self._splittables is None:
            self.bundles.run(transform_id, values, meta)
            return
        # One after the other, and each its share of the time: one that may go on for ever would
        # else leave nothing to the others, and their watermarks would hold everything back.
        for i, value in enumerate(values):
            with self._splittables.sharing(len(values) - i):
                self.bundles.run(transform_id, [value], pick(meta, [i]))

    def _split_off(self, transform_id: str, residual: Proto) -> None:
        assert self._splittables is not None
        self._splittables.split_off(transform_id, residual)

    # -- time

    def advance(self, watermark: int, last_out: int, expire: Callable[[int], None]) -> int:
        """Take the input watermark of the epoch; give the output watermark."""
        # At the end of time, processing time is at its end too: as in a bounded run.
        now = END if watermark >= END else self._now
        with self.bundles.active():
            if self.bounded:
                self.bundles.begin()  # a stage that got nothing still starts and ends one bundle
            self.bundles.end()
            later = self._splittables
            if later is not None:
                later.go_on()
            reached = self._run_sorted(watermark)
            while self._fire(reached, now) or (later is not None and later.wait()):
                if later is not None:
                    later.go_on()
            self.bundles.end()
            self.bundles.flush()
        expire(watermark)
        self.holds = holds = {}
        if self._timers.families:
            holds["timers"] = self._timers.hold()
        if later is not None:
            holds["residuals"] = later.hold()
        if self.pending is not None:
            holds["side inputs"] = self.pending.hold()
        if self.sorter is not None:
            holds["sorting"] = self.sorter.hold()
        return at_output(last_out, watermark, holds.values())

    def _run_sorted(self, watermark: int) -> int:
        """Process what is due in the order of event time; give how far timers may go after it.

        They see the watermark behind what waits, as if a step of its own did the sorting.
        """
        if self.sorter is None:
            return watermark
        (port,) = {port.transform_id for port in self.stage.reads}
        until = watermark if self.pending is None else min(watermark, self.pending.hold())
        batches = self.sorter.release(until, min(BATCH_VALUES, self.bundles.limit or BATCH_VALUES))
        if self.order is not None:
            encode_key = next(iter(self.key_encoders.values()))
            batches = numbered_by_time(self.order, encode_key, batches)
        timers = self._timers if self._timers.families else None
        run_by_time(batches, partial(self._run, port), timers, watermark, self._fire_first)
        self.bundles.end()
        return min(watermark, self.sorter.hold())

    def _fire_first(self, watermark: int) -> None:
        due = self._timers.pop(watermark, MIN_TIME)
        assert due is not None  # the caller has looked
        self.bundles.begin()
        self._process_timer(due)

    def _fire(self, watermark: int, now: int) -> bool:
        """Fire the timers that are due, also those that others of them set; say whether any was."""
        fired = False
        while self._timers.families and (due := self._timers.pop(watermark, now)) is not None:
            fired = True
            self.bundles.begin()
            while due is not None:
                self._process_timer(due)
                due = self._timers.pop(watermark, now)
            self.bundles.end()
        return fired

    def _process_timer(self, due: DueTimer) -> None:
        if self.trace is not None:
            self.trace.timer((due.transform_id,), due.family)
        process = self.bundles.ops[due.transform_id].process_timer
        if self.order is None:
            process(due.family, due.timer)
            return
        with caused_by(timer_number(self.order, self.key_encoders[due.transform_id], due)):
            process(due.family, due.timer)

    # -- the end of an epoch

    def drop_timers(self, owners: Collection[bytes]) -> None:
        """Forget the timers of keys and windows whose state has expired."""
        if self._timers.families:
            self._timers.drop(owners)

    def next_wakeup(self) -> int | None:
        """Give the earliest processing time at which something is due."""
        times = [self._timers.next_wakeup()] if self._timers.families else []
        if self._splittables is not None:
            times.append(self._splittables.next_wakeup())
        return min((t for t in times if t is not None), default=None)
