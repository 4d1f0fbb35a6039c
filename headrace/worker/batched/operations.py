"""The operations at the two ends of a stage, made known to Beam's BundleProcessor.

`StageRead` hands windowed values to the stage as objects; `ShardWrite` passes the stage's output to
a writer that the task provides. Both are registered under headrace's own URNs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations, statesampler
from apache_beam.transforms import core

from headrace.plan.names import SHARD_WRITE_URN, STAGE_READ_URN
from headrace.worker.batched.ends import Writer
from headrace.worker.batched.parameters import Filled
from headrace.worker.batched.stateful import StatefulCall, state_contexts, stateful_call
from headrace.worker.batched.steps import Step, signature_of, step_of, step_with, wants_whole
from headrace.worker.beam_operations import Consumers, DoFn, OperationFactory, SideInputMap
from headrace.worker.beam_types import Coder, Operation, Proto, Value, WindowFn, Windowing

#: A DoFn, its arguments by place and by name, its side inputs, and the windowing of its input.
DoFnInfo = tuple[DoFn, Sequence[Value], Mapping[str, Value], Sequence[Value], Windowing]

MAIN_TAG = "None"  # Beam's name of the output that has none


class StageRead(bundle_processor.DataInputOperation):  # type: ignore[misc]
    """Where elements enter a stage."""


class ShardWrite(operations.Operation):  # type: ignore[misc]
    """Where elements leave a stage. The task gives it its writer."""

    def __init__(
        self, name: Any, channels: list[int], factory: OperationFactory, coder: Coder
    ) -> None:
        super().__init__(name, None, factory.counter_factory, factory.state_sampler)
        self.channels = channels
        self.windowed_coder = coder
        self.writer: Any = None

    def bind(self, writer: Writer) -> None:
        """Send everything to this writer."""
        self.writer = writer
        self.process = writer.process  # found on the instance first: one call less per element


class SimpleDo(operations.DoOperation):  # type: ignore[misc]
    """A ParDo that a batched chain may run: Beam's operation plus the function inside its DoFn."""

    step: Step
    call: StatefulCall | None = None  # if it has state
    window_fn: WindowFn
    fn: DoFn  # the DoFn that Beam's lifecycle methods are called of


def _read(
    factory: OperationFactory, transform_id: str, proto: Proto, payload: bytes, consumers: Consumers
) -> Operation:
    spec = json.loads(payload)
    return StageRead(
        common.NameContext(proto.unique_name, transform_id),
        proto.unique_name,
        consumers,
        factory.counter_factory,
        factory.state_sampler,
        factory.get_coder(spec["coder"]),
        transform_id=transform_id,
        data_channel_factory=None,
    )


def _write(
    factory: OperationFactory, transform_id: str, proto: Proto, payload: bytes,
    consumers: Consumers,  # noqa: ARG001 (Beam's form)
) -> Operation:
    spec = json.loads(payload)
    return ShardWrite(
        common.NameContext(proto.unique_name, transform_id),
        spec["channels"],
        factory,
        factory.get_coder(spec["coder"]),
    )


class Shared:
    """Pickles to a reference, so that several unpicklings give one and the same DoFn."""

    table: dict[int, DoFnInfo] = {}
    #: Transforms whose DoFns look at whole windowed values; emptied with the table.
    whole: set[str] = set()

    def __init__(self, info: DoFnInfo) -> None:
        self._token = id(info)
        Shared.table[self._token] = info

    def __reduce__(self) -> tuple[Callable[[int], DoFnInfo], tuple[int]]:
        return _fetch, (self._token,)

    @classmethod
    def forget(cls) -> None:
        """The stage is built."""
        cls.table.clear()
        cls.whole.clear()


def _fetch(token: int) -> DoFnInfo:
    return Shared.table[token]


#: At 10 ms sampling costs nothing that can be seen; Beam's own period is 200.
SAMPLING_MS = 10
#: Whether Beam's sampler is the compiled one, which has a thread.
_HAS_THREAD = hasattr(statesampler.StateSampler, "run")


class QuickSampler(statesampler.StateSampler):  # type: ignore[misc]
    """Beam's sampler of where time goes, for whose end nobody waits.

    Beam waits until the sampler's thread wakes and sees that it is over: half a period for every
    stage of every task. It adds nothing any more then, so only who starts it anew has to wait.
    """

    def __init__(
        self, prefix: str, counter_factory: Any, sampling_period_ms: int = SAMPLING_MS
    ) -> None:
        super().__init__(prefix, counter_factory, sampling_period_ms)
        self._ended = threading.Event()
        self._ended.set()

    def start(self) -> None:
        """Start the thread."""
        if _HAS_THREAD:
            self._ended.clear()
        super().start()

    def run(self) -> None:
        """Sample until it is over; the thread does so."""
        try:
            super().run()
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Say that it is over."""
        statesampler.set_current_tracker(None)
        self.finished = True

    def reset(self) -> None:
        """Begin anew, once the thread has ended: it would go on beside the next one."""
        if self.started:
            self.finished = True
            self._ended.wait()
        super().reset()


@contextmanager
def quick_sampling() -> Iterator[None]:
    """What Beam builds in this block samples by our period; it offers no other way to say so."""
    before, statesampler.StateSampler = statesampler.StateSampler, QuickSampler
    try:
        yield
    finally:
        statesampler.StateSampler = before


class Finalisers:
    """Where callbacks that user code registers go while a streaming stage runs.

    Beam keeps them inside the operation and offers only to call or to forget them; in streaming
    they must outlive the bundle, until its epoch is committed.
    """

    collector: list[Callable[[], None]] | None = None  # None: Beam keeps them


_beam_register = core._BundleFinalizerParam.register  # noqa: SLF001


def _register(param: Any, callback: Callable[[], None]) -> None:
    if Finalisers.collector is None:
        _beam_register(param, callback)
    else:
        Finalisers.collector.append(callback)


core._BundleFinalizerParam.register = _register  # noqa: SLF001


_FACTORY = bundle_processor.BeamTransformFactory
_PAR_DO = common_urns.primitives.PAR_DO.urn
_beam_par_do, _par_do_payload = _FACTORY._known_urns[_PAR_DO]  # noqa: SLF001 (no public reader)


def _par_do(
    factory: OperationFactory, transform_id: str, proto: Proto, payload: Proto, consumers: Consumers
) -> Operation:
    """Build Beam's ParDo; a simple one keeps hold of its DoFn for the batched chains."""
    spec = core.DoFnInfo.from_runner_api(payload.do_fn, factory.context)
    info = pickler.loads(spec.serialized_dofn_data())
    if not info[4]:  # as Beam does, but without pickling the DoFn once more to say so
        info = (*info[:4], _main_windowing(factory, proto, payload))
    # Beam unpickles a DoFn several times, which costs seconds for one that carries data, as
    # Create's does; what is shared is the same object each time.
    shared = beam_runner_api_pb2.ParDoPayload()
    shared.CopyFrom(payload)
    shared.do_fn.urn = python_urns.PICKLED_DOFN_INFO
    shared.do_fn.payload = pickler.dumps(Shared(info))
    with state_contexts() as contexts, side_input_maps() as sides:
        op = _beam_par_do(factory, transform_id, proto, shared, consumers)
    context = contexts[0] if contexts else None
    signature = signature_of(info[0])
    if wants_whole(signature):
        Shared.whole.add(transform_id)
    if payload.restriction_coder_id or payload.requests_finalization or (sides and context):
        return op
    if len(proto.outputs) > 1 and MAIN_TAG not in proto.outputs:
        return op
    fn, args, kwargs = info[:3]
    call, step = None, None
    if context is None:
        step = step_of(fn, args, kwargs, signature, sides)
    elif (call := stateful_call(fn, args, kwargs, context, signature)) is not None:
        step = step_with(Filled(call, call.begin), fn)
    if step is None:
        return op
    simple = SimpleDo(
        op.name_context, op.spec, factory.counter_factory, factory.state_sampler, sides, context
    )
    # The sampler knows the first operation's states under this name: counters go to its container.
    simple.metrics_container = op.metrics_container
    simple.step, simple.call, simple.fn = step, call, fn
    simple.window_fn = getattr(info[4], "windowfn", info[4])
    return factory.augment_oldstyle_op(
        simple, proto.unique_name, consumers, op.spec.output_tags
    )


@contextmanager
def side_input_maps() -> Iterator[list[SideInputMap]]:
    """Give the maps of side inputs that Beam makes in this block, whose operation hides them.

    To be used within `state_contexts`, which lets one build at a time.
    """
    made: list[SideInputMap] = []
    before = bundle_processor.StateBackedSideInputMap

    class Noted(before):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    bundle_processor.StateBackedSideInputMap = Noted
    try:
        yield made
    finally:
        bundle_processor.StateBackedSideInputMap = before


def _main_windowing(factory: OperationFactory, proto: Proto, payload: Proto) -> Windowing:
    """Give the windowing of a ParDo's main input; its other inputs are side inputs and timers."""
    others = {*payload.side_inputs, *payload.timer_family_specs}
    (main,) = (pcoll for tag, pcoll in proto.inputs.items() if tag not in others)
    strategy = factory.descriptor.pcollections[main].windowing_strategy_id
    return factory.context.windowing_strategies.get_by_id(strategy)  # type: ignore[no-any-return]


_FACTORY.register_urn(_PAR_DO, _par_do_payload)(_par_do)
bundle_processor.BeamTransformFactory.register_urn(STAGE_READ_URN, bytes)(_read)
bundle_processor.BeamTransformFactory.register_urn(SHARD_WRITE_URN, bytes)(_write)
