"""Runs bundles of one stage in Beam's lifecycle order, and nothing else of it.

Takes batches through `run`, gives them to the writers it was built with. Beam's BundleProcessor
does the work; nothing passes through a transport. Knows no watermark: see `stage`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, statesampler
from apache_beam.utils import proto_utils

from headrace.plan.settings import ColumnsMode
from headrace.plan.supersteps import Port, Stage
from headrace.quick_beam import reading_once
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.cause import caused_by
from headrace.worker.batched.chains import augment
from headrace.worker.batched.ends import Writer
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.batched.operations import Finalisers, ShardWrite, Shared, quick_sampling
from headrace.worker.batched.route import Route
from headrace.worker.beam_operations import OperationFactory
from headrace.worker.beam_types import Operation, Proto, Value
from headrace.worker.checks.checked_calls import arm
from headrace.worker.columns.values import ColumnValues
from headrace.worker.task.memory import Cells, Timers

_LOG = logging.getLogger(__name__)

#: Makes the writer of an output that goes to the channels of these ports.
MakeWriter = Callable[[Sequence[Port]], Writer]
#: Takes what a bundle has left for later: the transform and Beam's residual.
Leave = Callable[[str, Proto], None]


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


def call_finalisers(callbacks: Iterable[Callable[[], None]]) -> None:
    """Run callbacks of bundles that count."""
    for callback in callbacks:
        try:
            callback()
        except Exception:  # noqa: BLE001 (as in Beam: they must not fail the pipeline)
            _LOG.warning("a finalisation callback failed", exc_info=True)


class Bundles:
    """The operations of one stage, from setup to teardown, bundle after bundle."""

    def __init__(
        self,
        stage: Stage,
        components: Proto,
        cells: Cells,
        timers: Timers,
        make_writer: MakeWriter,
        max_bundle_elements: int,
        leave: Leave,
        columns: ColumnsMode = ColumnsMode.ON,
    ) -> None:
        self._stage = stage
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor()
        descriptor.CopyFrom(components)
        descriptor.MergeFromString(stage.transforms)
        arm(descriptor, stage.claims)
        with quick_sampling(), reading_once():
            self._processor = bundle_processor.BundleProcessor(
                frozenset(), descriptor, cells, None
            )
        self.ops: dict[str, Operation] = self._processor.ops
        self.transforms = self._processor.process_bundle_descriptor.transforms
        self._sampler = self._processor.state_sampler
        self._context: Any = None
        self._limit = max_bundle_elements or None
        self._in_bundle = 0
        self._bundles = 0
        self.see: Callable[[list[Value]], None] | None = None  # is shown batches, if asked for
        self._leave = leave
        self._kept_infos: list[Value] = []
        self._finalisers: list[Callable[[], None]] = []
        factory = bundle_processor.BeamTransformFactory(
            frozenset(), descriptor, None, None, self._sampler, cells, None
        )
        self._writers: list[Writer] = []
        for transform_id, op in self.ops.items():
            if isinstance(op, ShardWrite):
                writer = make_writer([p for p in stage.writes if p.transform_id == transform_id])
                op.bind(writer)
                self._writers.append(writer)
        self._columns = columns
        with reading_once():
            self._route = Route(descriptor, self.ops, factory.context, stage, columns)
        Shared.forget()
        self.stateful: list[str] = []  # the transforms that have state
        self._bind_timers(descriptor, factory, timers)

    def _bind_timers(self, descriptor: Proto, factory: OperationFactory, timers: Timers) -> None:
        for transform_id, proto in descriptor.transforms.items():
            if proto.spec.urn != common_urns.primitives.PAR_DO.urn:
                continue
            payload = proto_utils.parse_Bytes(
                proto.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            if payload.state_specs:
                self.stateful.append(transform_id)
            for family, spec in payload.timer_family_specs.items():
                coder = factory.get_coder(spec.timer_family_coder_id)
                sink = timers.sink(transform_id, family, spec.time_domain, coder)
                info = bundle_processor.TimerInfo(sink, sink)
                self.ops[transform_id].add_timer_info(family, info)

    @property
    def limit(self) -> int | None:
        """The most elements that a bundle may have; None: any number."""
        return self._limit

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this stage the one that metrics, logs and finalisers of user code belong to."""
        before = statesampler.get_current_tracker()
        collector, Finalisers.collector = Finalisers.collector, self._finalisers
        if not self._sampler.started:
            self._sampler.start()
        statesampler.set_current_tracker(self._sampler)
        try:
            with blaming(self._stage):
                yield
        finally:
            statesampler.set_current_tracker(before)
            Finalisers.collector = collector

    def forget_epoch(self) -> None:
        """Begin anew: what a bundle that failed left behind does not count."""
        self._context = None
        self._kept_infos = []
        self._finalisers = []
        if self._bundles:
            self._processor.reset()

    def run(self, transform_id: str, values: list[Value], meta: Meta) -> None:
        """Process a batch."""
        if self.see is not None:
            self.see(values)
        with self.active(), caused_by(None):
            self.begin()
            self._route.entries[transform_id](values, meta)
            self._in_bundle += len(values)
            if self._limit is not None and self._in_bundle >= self._limit:
                self.end()

    def takes_columns(self, transform_id: str) -> bool:
        """Whether batches of columns that enter here are of use."""
        return self.columns_are_on and self._route.entries[transform_id].takes_columns

    @property
    def columns_are_on(self) -> bool:
        """Whether batches of columns may be in the stage at all."""
        return self._columns is not ColumnsMode.OFF

    def takes_groups(self, transform_id: str, parts: Sequence[ColumnValues]) -> bool:
        """Whether groups that enter here are of use as pairs of columns."""
        return self._route.entries[transform_id].takes_groups(parts)

    def run_groups(self, transform_id: str, groups: KeyedRows, meta: Meta) -> None:
        """Process the groups of a window while they are pairs of columns."""
        with self.active(), caused_by(None):
            self.begin()
            self._route.entries[transform_id].groups(groups, meta)
            self._in_bundle += len(groups)
            if self._limit is not None and self._in_bundle >= self._limit:
                self.end()

    def run_columns(self, transform_id: str, values: ColumnValues, meta: Meta) -> None:
        """Process a batch of columns."""
        if self.see is not None:
            self.see(values.slice(0, 1).objects())
        with self.active(), caused_by(None):
            self.begin()
            self._route.entries[transform_id].columns(values, meta)
            self._in_bundle += len(values)
            if self._limit is not None and self._in_bundle >= self._limit:
                self.end()

    def begin(self) -> None:
        """See that a bundle is open."""
        if self._context is not None:
            return
        self._bundles += 1
        self._context = bundle_processor.ExecutionContext(
            instruction_id=f"{self._stage.stage_id}-{self._bundles}"
        )
        for op in reversed(self.ops.values()):
            op.execution_context = self._context
            op.start()
        self._in_bundle = 0

    def end(self) -> None:
        """End the bundle that is open, if any."""
        if self._context is None:
            return
        with caused_by(None if self._stage.order is None else self._stage.order.ended()):
            for transform_id, op in self.ops.items():
                self._route.before_finish(transform_id)
                op.finish()
        self._forget_written_state()
        if delayed := self._context.delayed_applications:
            names = {id(op): transform_id for transform_id, op in self.ops.items()}
            for op, residual in delayed:
                self._leave(names[id(op)], residual)
        self._context = None

    def _forget_written_state(self) -> None:
        """Drop Beam's copy of what a bundle wrote to state: the next would write it once more."""
        for transform_id in self.stateful:
            op = self.ops[transform_id]
            self._kept_infos += op.user_monitoring_infos(transform_id).values()
            op.reset()

    def application(self, transform_id: str, residual: Proto) -> Proto:
        """Give a residual in the form in which it can be kept."""
        return self._processor.delayed_bundle_application(self.ops[transform_id], residual)

    def flush(self) -> None:
        """Let every writer send what it holds back."""
        for writer in self._writers:
            writer.flush()

    def take_finalisers(self) -> list[Callable[[], None]]:
        """Give the callbacks that user code registered in this epoch, and forget them."""
        found, self._finalisers = self._finalisers, []
        return found

    def metrics(self) -> bytes:
        """Give Beam's monitoring infos of everything the stage did in this epoch."""
        self._sampler.stop_if_still_running()
        infos = [*self._processor.monitoring_infos(), *self._kept_infos]
        response = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=infos)
        return bytes(response.SerializeToString())

    def teardown(self) -> None:
        """Let every DoFn tear down."""
        self._sampler.stop_if_still_running()
        self._processor.shutdown()
