"""Runs one stage on one shard, epoch after epoch: what a `StageRun` does, with state in a store.

Takes elements through `push*`, then the epoch's watermark through `advance`; gives elements to the
writers it was built with, and its output watermark. Kept by the process from one epoch to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.common import DoFnSignature

from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.supersteps import Stage
from headrace.state.store import Store
from headrace.worker.batched.batches import Meta, pick
from headrace.worker.batched.chains import pick_one
from headrace.worker.batched.operations import Finalisers
from headrace.worker.grouping.lateness import Lateness
from headrace.worker.task.stage import MakeWriter, StageRun
from headrace.worker.task.trace import Trace
from headrace.worker.userstate.residuals import Residuals
from headrace.worker.userstate.splitter import splitting
from headrace.worker.userstate.stored_timers import StoredTimers

_PROCESS_SIZED = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn


def _share(until: float, sharers: int) -> float:
    """Give the seconds that the next of so many may take until a moment."""
    return max(0.01, (until - time.monotonic()) / sharers)


class StreamStage(StageRun):
    """One stage, from setup to the end of the process."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        components: Any,
        cells: Any,
        make_writer: MakeWriter,
        max_bundle_elements: int,
    ) -> None:
        self.number = number
        super().__init__(stage, components, cells, make_writer, max_bundle_elements)
        transforms = self._processor.process_bundle_descriptor.transforms
        self._splittable = [
            (transform_id, op)
            for transform_id, op in self._ops.items()
            if transforms[transform_id].spec.urn == _PROCESS_SIZED
        ]
        self._residuals_kept = Residuals(number) if self._splittable else None
        self._providers: dict[str, Any] = {}  # of restrictions, by transform; for a drain
        self.pending: Any = None  # a PendingGraph, if the stage begins with side inputs
        self.late: Lateness | None = None  # if elements go to a stateful ParDo one by one
        self.trace: Trace | None = None  # if a worker was lost in this epoch before
        self.lateness = 0  # how long elements may come after the end of their windows
        self._finalisers: list[Callable[[], None]] = []
        self._now = 0
        self._bundle_seconds = 1.0
        self._until: float | None = None
        self._drain = False

    @property
    def stateful(self) -> list[str]:
        """The transforms that have state or timers."""
        return self._stateful

    @property
    def keeps_state(self) -> bool:
        """Whether anything of the stage must outlive an epoch."""
        return bool(
            self._stateful or self._timers.families or self._splittable or self.pending
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps, for messages."""
        return self.stage.operators or (self.stage.name,)

    def _make_timers(self) -> Any:
        return StoredTimers(self.number)

    def _timer_sink(self, transform_id: str, family: str, domain: int, timer_coder: Any) -> Any:
        return self._timers.sink(transform_id, family, domain, timer_coder)

    def attach(self, store: Store | None, now: int, bundle_seconds: float, drain: bool) -> None:
        """Begin an epoch."""
        self._now = now
        self._bundle_seconds = bundle_seconds
        self._until = None
        self._drain = drain
        self._context = None
        self._kept_infos = []
        self._finalisers = []
        self._processor.reset()
        if store is None:
            return
        if self._timers.families:
            self._timers.attach(store)
        if self._residuals_kept is not None:
            self._residuals_kept.attach(store)
        if self.pending is not None:
            self.pending.attach(store)

    def push(self, transform_id: str, values: list[Any], meta: Meta) -> None:
        """Process a batch: what is not too late, and what has its side inputs."""
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
        self._run_batch(transform_id, values, meta)

    def _run_batch(self, transform_id: str, values: list[Any], meta: Meta) -> None:
        if self.trace is not None and len(values) > 1:
            for i, value in enumerate(values):
                self._run_batch(transform_id, [value], pick_one(pick(meta, [i])))
            return
        if self.trace is not None:
            self.trace.element(self.steps, values[0], pick_one(meta).timestamp_micros)
        if not self._splittable:
            super().push(transform_id, values, meta)
            return
        # One after the other, and each its share of the time: one that may go on for ever would
        # else leave nothing to the others, and their watermarks would hold everything back.
        for i, value in enumerate(values):
            share = _share(self._deadline(), len(values) - i)
            with splitting(self._splittable, share, self._split_off):
                super().push(transform_id, [value], pick_one(pick(meta, [i])))

    def _deadline(self) -> float:
        """Give when splittable DoFns must have come to rest in this epoch."""
        if self._until is None:
            self._until = time.monotonic() + self._bundle_seconds
        return self._until

    def release(self, opened: Any, watermarks: list[int]) -> None:
        """Process what waited for side inputs that are there now."""
        if self.pending is None:
            return
        (port,) = {port.transform_id for port in self.stage.reads}
        for values, meta in self.pending.release(opened, watermarks):
            self._run_batch(port, values, meta)

    def _split_off(self, transform_id: str, residual: Any) -> None:
        application = self._processor.delayed_bundle_application(
            self._ops[transform_id], residual
        )
        assert self._residuals_kept is not None
        self._residuals_kept.add(transform_id, application, self._now, at_once=self._drain)

    def _keep_residuals(self) -> None:
        assert self._context is not None
        names = {id(op): transform_id for transform_id, op in self._ops.items()}
        for op, residual in self._context.delayed_applications:
            self._split_off(names[id(op)], residual)

    def advance(self, watermark: int, last_out: int, expire: Callable[[int], None]) -> int:
        """Take the input watermark of the epoch; give the output watermark."""
        with self._active():
            self._end()
            if self._residuals_kept is not None:
                self._go_on()
            # At the end of time, processing time is at its end too: as in a bounded run.
            now = END if watermark >= END else self._now
            while self._timers.families and self._fire(watermark, now):
                pass
            self._end()
            for writer in self._writers:
                writer.flush()
        expire(watermark)
        holds = [watermark]
        if self._timers.families:
            holds.append(self._timers.hold())
        if self._residuals_kept is not None:
            holds.append(self._residuals_kept.hold())
        if self.pending is not None:
            holds.append(self.pending.hold())
        return max(last_out, int(min(holds)))

    def _fire(self, watermark: int, now: int) -> bool:
        due = self._timers.pop(watermark, now)
        if due is None:
            return False
        self._begin()
        while due is not None:
            if self.trace is not None:
                self.trace.timer((due.transform_id,), due.family)
            self._ops[due.transform_id].process_timer(due.family, due.timer)
            due = self._timers.pop(watermark, now)
        self._end()
        return True

    def _go_on(self) -> None:
        """Run the rests that are due; again while they ask for no delay and there is time."""
        assert self._residuals_kept is not None
        rests = self._residuals_kept
        until = self._deadline()
        while due := rests.take_all() if self._drain else rests.take_due(self._now):
            self._begin()
            for i, rest in enumerate(due):
                op = self._ops[rest.transform_id]
                element = op.input_info.main_input_coder.get_impl().decode_nested(rest.element)
                if self._drain:
                    element = self._truncated(rest.transform_id, element)
                    if element is None:
                        continue
                with splitting(self._splittable, _share(until, len(due) - i), self._split_off):
                    op.process(element)
            self._end()
            if time.monotonic() >= until:
                break

    def _truncated(self, transform_id: str, element: Any) -> Any | None:
        """Ask the DoFn what of a rest is still to be done when the pipeline is to end."""
        provider = self._providers.get(transform_id)
        if provider is None:
            proto = self._processor.process_bundle_descriptor.transforms[transform_id]
            payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
            fn = pickler.loads(payload.do_fn.payload)[0]
            provider = DoFnSignature(fn).get_restriction_provider()
            self._providers[transform_id] = provider
        (value, (restriction, estimator)), _ = element.value
        left = provider.truncate(value, restriction)
        if not left:
            return None
        size = provider.restriction_size(value, left)
        return element.with_value(((value, (left, estimator)), size))

    def drop_timers(self, owners: Collection[bytes]) -> None:
        """Forget the timers of keys and windows whose state has expired."""
        if self._timers.families:  # else they are not attached: the stage has state alone
            self._timers.drop(owners)

    def next_wakeup(self) -> int | None:
        """Give the earliest processing time at which something is due."""
        times = [self._timers.next_wakeup()] if self._timers.families else []
        if self._residuals_kept is not None:
            times.append(self._residuals_kept.next_wakeup())
        return min((t for t in times if t is not None), default=None)

    @contextmanager
    def _active(self) -> Iterator[None]:
        before, Finalisers.collector = Finalisers.collector, self._finalisers
        try:
            with super()._active():
                yield
        finally:
            Finalisers.collector = before

    def take_finalisers(self) -> list[Callable[[], None]]:
        """Give the callbacks that user code registered in this epoch, and forget them."""
        found, self._finalisers = self._finalisers, []
        return found

    def flush(self) -> None:
        """Write everything to the store."""
        if self._timers.families:
            self._timers.flush()
        if self._residuals_kept is not None:
            self._residuals_kept.flush()
        if self.pending is not None:
            self.pending.flush()

    def finalize(self) -> None:
        """Nothing here: callbacks run after the commit, see `take_finalisers`."""
