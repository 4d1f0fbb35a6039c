"""Runs one stage on one shard: bundles in Beam's lifecycle order, timers, residuals.

Takes elements through `push*`, gives them to the writers it was built with. Beam's BundleProcessor
does the work; nothing passes through a transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, statesampler
from apache_beam.utils import proto_utils

from headrace.plan.supersteps import Stage
from headrace.worker.bind import ShardWrite, StageRead
from headrace.worker.cells import Cells
from headrace.worker.timers import TimerQueue
from headrace.worker.writers import Writer

MakeWriter = Callable[[ShardWrite], Writer]


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
        self._processor = bundle_processor.BundleProcessor(
            frozenset(), descriptor, cells, None
        )
        self._ops: dict[str, Any] = self._processor.ops
        self._sampler = self._processor.state_sampler
        self._timers = TimerQueue()
        self._context: Any = None
        self._limit = max_bundle_elements or None
        self._in_bundle = 0
        self._bundles = 0
        self._residuals: list[tuple[float, Any, bytes]] = []
        self.factory = bundle_processor.BeamTransformFactory(
            frozenset(), descriptor, None, None, self._sampler, cells, None
        )
        self._writers: list[Writer] = []
        for op in self._ops.values():
            if isinstance(op, ShardWrite):
                writer = make_writer(op)
                op.process = writer.process
                self._writers.append(writer)
        self._bind_timers(descriptor)

    def _bind_timers(self, descriptor: Any) -> None:
        for transform_id, proto in descriptor.transforms.items():
            if proto.spec.urn != common_urns.primitives.PAR_DO.urn:
                continue
            payload = proto_utils.parse_Bytes(
                proto.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            for family, spec in payload.timer_family_specs.items():
                timer_coder = self.factory.get_coder(spec.timer_family_coder_id)
                key_impl = timer_coder._get_component_coders()[0].get_impl()  # noqa: SLF001
                sink = self._timers.sink(transform_id, family, spec.time_domain, key_impl)
                info = bundle_processor.TimerInfo(sink, sink)
                self._ops[transform_id].add_timer_info(family, info)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Make this stage the one that metrics and logs of user code belong to."""
        before = statesampler.get_current_tracker()
        if not self._sampler.started:
            self._sampler.start()
        statesampler.set_current_tracker(self._sampler)
        try:
            yield
        finally:
            statesampler.set_current_tracker(before)

    def read(self, transform_id: str) -> StageRead:
        """Give the operation through which a channel enters."""
        op = self._ops[transform_id]
        assert isinstance(op, StageRead)
        return op

    def push(self, transform_id: str, elements: list[Any]) -> None:
        """Process windowed values."""
        with self._active():
            self._begin()
            self.read(transform_id).push(elements)
            self._count(len(elements))

    def push_rows(self, transform_id: str, count: int, payload: bytes, decode: Any) -> None:
        """Process encoded windowed values."""
        with self._active():
            self._begin()
            self.read(transform_id).push_rows(payload, decode)
            self._count(count)

    def push_from(self, transform_id: str, emit: Callable[[Callable[[Any], None]], None]) -> None:
        """Process what `emit` hands to the function it is given."""
        with self._active():
            self._begin()
            receive = self.read(transform_id).receive()
            if self._limit is None:
                emit(receive)
                return

            def bounded(element: Any) -> None:
                self._begin()
                receive(element)
                self._count(1)

            emit(bounded)

    def _count(self, elements: int) -> None:
        self._in_bundle += elements
        if self._limit is not None and self._in_bundle >= self._limit:
            self._end()

    def _begin(self) -> None:
        if self._context is not None:
            return
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
        for op in self._ops.values():
            op.finish()
        now = time.monotonic()
        for op, residual in self._context.delayed_applications:
            application = self._processor.delayed_bundle_application(op, residual)
            delay = application.requested_time_delay.ToTimedelta().total_seconds()
            self._residuals.append((now + delay, op, application.application.element))
        self._context = None

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
        """Run the bundle finalisers that user code registered."""
        with self._active():
            if self._processor.requires_finalization():
                self._processor.finalize_bundle()

    def metrics(self) -> bytes:
        """Give Beam's monitoring infos of everything this stage did."""
        self._sampler.stop_if_still_running()
        infos = self._processor.monitoring_infos()
        response = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=infos)
        return bytes(response.SerializeToString())

    def teardown(self) -> None:
        """Let every DoFn tear down."""
        self._sampler.stop_if_still_running()
        self._processor.shutdown()
