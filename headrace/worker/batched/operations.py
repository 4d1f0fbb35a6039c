"""The operations at the two ends of a stage, made known to Beam's BundleProcessor.

`StageRead` hands windowed values to the stage as objects; `ShardWrite` passes the stage's output to
a writer that the task provides. Both are registered under headrace's own URNs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations, statesampler
from apache_beam.transforms import core

from headrace.plan.names import SHARD_WRITE_URN, STAGE_READ_URN
from headrace.worker.batched.parameters import Filled
from headrace.worker.batched.stateful import StatefulCall, state_contexts, stateful_call
from headrace.worker.batched.steps import signature_of, step_of, step_with, wants_whole
from headrace.worker.beam_types import Coder, Proto, Value

MAIN_TAG = "None"  # Beam's name of the output that has none


class StageRead(bundle_processor.DataInputOperation):  # type: ignore[misc]
    """Where elements enter a stage."""


class ShardWrite(operations.Operation):  # type: ignore[misc]
    """Where elements leave a stage. The task gives it its writer."""

    def __init__(self, name: Any, channels: list[int], factory: Any, coder: Coder) -> None:
        super().__init__(name, None, factory.counter_factory, factory.state_sampler)
        self.channels = channels
        self.windowed_coder = coder
        self.writer: Any = None

    def bind(self, writer: Any) -> None:
        """Send everything to this writer."""
        self.writer = writer
        self.process = writer.process  # found on the instance first: one call less per element


class SimpleDo(operations.DoOperation):  # type: ignore[misc]
    """A ParDo that a batched chain may run: Beam's operation plus the function inside its DoFn."""

    step: Any = None
    call: StatefulCall | None = None  # if it has state
    window_fn: Any = None


def _read(factory: Any, transform_id: str, proto: Proto, payload: bytes, consumers: Any) -> Any:
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


def _write(factory: Any, transform_id: str, proto: Proto, payload: bytes, consumers: Any) -> Any:  # noqa: ARG001
    spec = json.loads(payload)
    return ShardWrite(
        common.NameContext(proto.unique_name, transform_id),
        spec["channels"],
        factory,
        factory.get_coder(spec["coder"]),
    )


class Shared:
    """Pickles to a reference, so that several unpicklings give one and the same DoFn."""

    table: dict[int, Any] = {}
    #: Transforms whose DoFns look at whole windowed values; emptied with the table.
    whole: set[str] = set()

    def __init__(self, info: Any) -> None:
        self._token = id(info)
        Shared.table[self._token] = info

    def __reduce__(self) -> Any:
        return _fetch, (self._token,)

    @classmethod
    def forget(cls) -> None:
        """The stage is built."""
        cls.table.clear()
        cls.whole.clear()


def _fetch(token: int) -> Any:
    return Shared.table[token]


#: Beam stops its sampler by waiting until it wakes, which by default may take 200 ms, for every
#: stage of every task. At 10 ms it costs nothing that can be seen, and the wait is as short.
SAMPLING_MS = 10


class QuickSampler(statesampler.StateSampler):  # type: ignore[misc]
    """Beam's sampler of where time goes, which ends soon after it is told to."""

    def __init__(
        self, prefix: str, counter_factory: Any, sampling_period_ms: int = SAMPLING_MS
    ) -> None:
        super().__init__(prefix, counter_factory, sampling_period_ms)


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

    collector: list[Value] | None = None  # None: Beam keeps them


_beam_register = core._BundleFinalizerParam.register  # noqa: SLF001


def _register(param: Any, callback: Any) -> None:
    if Finalisers.collector is None:
        _beam_register(param, callback)
    else:
        Finalisers.collector.append(callback)


core._BundleFinalizerParam.register = _register  # noqa: SLF001


_FACTORY = bundle_processor.BeamTransformFactory
_PAR_DO = common_urns.primitives.PAR_DO.urn
_beam_par_do, _par_do_payload = _FACTORY._known_urns[_PAR_DO]  # noqa: SLF001 (no public reader)


def _par_do(factory: Any, transform_id: str, proto: Proto, payload: Proto, consumers: Any) -> Any:
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
    with state_contexts() as contexts:
        op = _beam_par_do(factory, transform_id, proto, shared, consumers)
    context = contexts[0] if contexts else None
    signature = signature_of(info[0])
    if wants_whole(signature):
        Shared.whole.add(transform_id)
    if payload.side_inputs or payload.restriction_coder_id or payload.requests_finalization:
        return op
    if len(proto.outputs) > 1 and MAIN_TAG not in proto.outputs:
        return op
    fn, args, kwargs = info[:3]
    call, step = None, None
    if context is None:
        step = step_of(fn, args, kwargs, signature)
    elif (call := stateful_call(fn, args, kwargs, context, signature)) is not None:
        step = step_with(Filled(call, call.begin), fn)
    if step is None:
        return op
    simple = SimpleDo(
        op.name_context, op.spec, factory.counter_factory, factory.state_sampler, [], context
    )
    # The sampler knows the first operation's states under this name: counters go to its container.
    simple.metrics_container = op.metrics_container
    simple.step, simple.call = step, call
    simple.window_fn = getattr(info[4], "windowfn", info[4])
    return factory.augment_oldstyle_op(
        simple, proto.unique_name, consumers, op.spec.output_tags
    )


def _main_windowing(factory: Any, proto: Proto, payload: Proto) -> Any:
    """Give the windowing of a ParDo's main input; its other inputs are side inputs and timers."""
    others = {*payload.side_inputs, *payload.timer_family_specs}
    (main,) = (pcoll for tag, pcoll in proto.inputs.items() if tag not in others)
    strategy = factory.descriptor.pcollections[main].windowing_strategy_id
    return factory.context.windowing_strategies.get_by_id(strategy)


_FACTORY.register_urn(_PAR_DO, _par_do_payload)(_par_do)
bundle_processor.BeamTransformFactory.register_urn(STAGE_READ_URN, bytes)(_read)
bundle_processor.BeamTransformFactory.register_urn(SHARD_WRITE_URN, bytes)(_write)
