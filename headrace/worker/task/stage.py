"""Runs one stage on one shard: bundles in Beam's lifecycle order, timers, residuals.

Takes elements through `push*`, gives them to the writers it was built with. Beam's BundleProcessor
does the work; nothing passes through a transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, statesampler
from apache_beam.utils import proto_utils

from headrace.plan.supersteps import Stage
from headrace.worker.batched.batches import BATCH_VALUES, Meta, batch_of, in_millis
from headrace.worker.batched.chains import augment
from headrace.worker.batched.operations import ShardWrite, Shared, quick_sampling
from headrace.worker.batched.route import Route
from headrace.worker.exchange.writers import Writer
from headrace.worker.userstate.cells import Cells
from headrace.worker.userstate.timers import TimerQueue

MakeWriter = Callable[[ShardWrite], Writer]


@contextmanager
def blaming(stage: Stage) -> Iterator[None]:
    """Name the stage's steps in an exception that no single step could be blamed for."""
    try:
        yield
    except Exception as error:
        if "[while running" in str(error):
            raise
        read = [port.transform_id.removesuffix("/Read") for port in stage.reads]
        names = [*stage.operators] or read
        rest = len(names) - 3
        augment(error, ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else ""))


class StageRun:
    """One stage, from setup to teardown."""

    def __init__(
        self,
        stage: Stage,
        components: Any,
        cells: Cells,
        make_writer: MakeWriter,
        max_bundle_elements: int,
    ) -> None:
        self.stage = stage
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor()
        descriptor.CopyFrom(components)
        descriptor.MergeFromString(stage.transforms)
        with quick_sampling():
            self._processor = bundle_processor.BundleProcessor(
                frozenset(), descriptor, cells, None
            )
        self._ops: dict[str, Any] = self._processor.ops
        self._sampler = self._processor.state_sampler
        self._timers = self._make_timers()
        self._context: Any = None
        self._limit = max_bundle_elements or None
        self._in_bundle = 0
        self._bundles = 0
        self._residuals: list[tuple[float, Any, bytes]] = []
        self._kept_infos: list[Any] = []
        self.factory = bundle_processor.BeamTransformFactory(
            frozenset(), descriptor, None, None, self._sampler, cells, None
        )
        self._writers: list[Writer] = []
        for op in self._ops.values():
            if isinstance(op, ShardWrite):
                writer = make_writer(op)
                op.bind(writer)
                self._writers.append(writer)
        self._route = Route(descriptor, self._ops, self.factory.context)
        Shared.forget()
        self._stateful: list[str] = []
        self._bind_timers(descriptor)

    def _make_timers(self) -> Any:
        return TimerQueue()

    def _bind_timers(self, descriptor: Any) -> None:
        for transform_id, proto in descriptor.transforms.items():
            if proto.spec.urn != common_urns.primitives.PAR_DO.urn:
                continue
            payload = proto_utils.parse_Bytes(
                proto.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            if payload.state_specs:
                self._stateful.append(transform_id)
            for family, spec in payload.timer_family_specs.items():
                timer_coder = self.factory.get_coder(spec.timer_family_coder_id)
                sink = self._timer_sink(transform_id, family, spec.time_domain, timer_coder)
                info = bundle_processor.TimerInfo(sink, sink)
                self._ops[transform_id].add_timer_info(family, info)

    def _timer_sink(self, transform_id: str, family: str, domain: int, timer_coder: Any) -> Any:
        key_impl = timer_coder._get_component_coders()[0].get_impl()  # noqa: SLF001
        return self._timers.sink(transform_id, family, domain, key_impl)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Make this stage the one that metrics and logs of user code belong to."""
        before = statesampler.get_current_tracker()
        if not self._sampler.started:
            self._sampler.start()
        statesampler.set_current_tracker(self._sampler)
        try:
            with blaming(self.stage):
                yield
        finally:
            statesampler.set_current_tracker(before)

    def push(self, transform_id: str, values: list[Any], meta: Meta) -> None:
        """Process a batch."""
        with self._active():
            self._begin()
            self._route.entries[transform_id](values, meta)
            self._in_bundle += len(values)
            if self._limit is not None and self._in_bundle >= self._limit:
                self._end()

    def push_groups(self, transform_id: str, groups: list[Any], meta: Meta) -> None:
        """Push what a grouping made.

        Beam's runners hand groups over encoded, with whole milliseconds; so the end of a window is
        the same time here as after the next exchange.
        """
        self.push(transform_id, groups, in_millis(meta))

    def push_rows(self, transform_id: str, payload: bytes, decode: Any) -> None:
        """Process encoded windowed values."""
        stream = create_InputStream(payload)
        room = min(BATCH_VALUES, self._limit or BATCH_VALUES)
        while stream.size() > 0:
            found: list[Any] = []
            while stream.size() > 0 and len(found) < room:
                found.append(decode(stream, True))
            self.push(transform_id, *batch_of(found))

    def _begin(self) -> None:
        if self._context is not None:
            return
        self.finalize()
        self._bundles += 1
        self._context = bundle_processor.ExecutionContext(
            instruction_id=f"{self.stage.stage_id}-{self._bundles}"
        )
        for op in reversed(self._ops.values()):
            op.execution_context = self._context
            op.start()
        self._in_bundle = 0

    def _end(self) -> None:
        if self._context is None:
            return
        for transform_id, op in self._ops.items():
            self._route.before_finish(transform_id)
            op.finish()
        self._forget_written_state()
        self._keep_residuals()
        self._context = None

    def _keep_residuals(self) -> None:
        assert self._context is not None
        now = time.monotonic()
        for op, residual in self._context.delayed_applications:
            application = self._processor.delayed_bundle_application(op, residual)
            delay = application.requested_time_delay.ToTimedelta().total_seconds()
            self._residuals.append((now + delay, op, application.application.element))

    def _forget_written_state(self) -> None:
        """Drop Beam's copy of what a bundle wrote to state: the next would write it once more."""
        for transform_id in self._stateful:
            op = self._ops[transform_id]
            if not op.needs_finalization():  # else its finalisers go with it: see `finalize`
                self._kept_infos += op.user_monitoring_infos(transform_id).values()
                op.reset()

    def close_input(self) -> None:
        """The input is whole: end the bundle, then run residuals and timers until none is left."""
        with self._active():
            self._begin()  # a stage that got nothing still starts and finishes one bundle
            self._end()
            while True:
                if self._residuals:
                    self._run_residuals()
                elif not self._fire_timers():
                    break
            for writer in self._writers:
                writer.flush()

    def _run_residuals(self) -> None:
        wait = min(due for due, _, _ in self._residuals) - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        now = time.monotonic()
        due = [r for r in self._residuals if r[0] <= now]
        self._residuals = [r for r in self._residuals if r[0] > now]
        self._begin()
        for _, op, encoded in due:
            op.process(op.input_info.main_input_coder.get_impl().decode_nested(encoded))
        self._end()

    def _fire_timers(self) -> bool:
        due = self._timers.pop()
        if due is None:
            return False
        self._begin()
        while due is not None:
            self._ops[due.transform_id].process_timer(due.family, due.timer)
            due = self._timers.pop()
        self._end()
        return True

    def finalize(self) -> None:
        """Run the finalisers that user code registered in bundles that have ended."""
        if self._bundles and self._processor.requires_finalization():
            with self._active():
                self._processor.finalize_bundle()
            for transform_id, op in self._ops.items():
                if op.needs_finalization():
                    # Only a whole reset makes the operation forget its callbacks; it forgets its
                    # user metrics too, so these are put aside first.
                    self._kept_infos += op.user_monitoring_infos(transform_id).values()
                    op.reset()

    def metrics(self) -> bytes:
        """Give Beam's monitoring infos of everything this stage did."""
        self._sampler.stop_if_still_running()
        infos = [*self._processor.monitoring_infos(), *self._kept_infos]
        response = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=infos)
        return bytes(response.SerializeToString())

    def teardown(self) -> None:
        """Let every DoFn tear down."""
        self._sampler.stop_if_still_running()
        self._processor.shutdown()
