"""Takes fingerprints of what decides how state is read: coders, windowings, state cells.

Takes scheduled stages and Beam's components, gives texts. Two pipelines with equal texts can read
each other's state.
"""

from __future__ import annotations

import hashlib
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from headrace.compiler.ingest import CoderFingerprints
from headrace.compiler.proto.windowing_words import words_of
from headrace.compiler.schedule import Schedule
from headrace.plan.facts import StateFacts

_PAR_DO = common_urns.primitives.PAR_DO.urn


def facts_of(laid_out: Schedule, components: Any) -> StateFacts:
    """Take the fingerprints."""
    fingerprints = CoderFingerprints(components)
    coders = {
        channel.coder_id: fingerprints.whole(channel.coder_id)
        for channel in laid_out.channels
        if channel.coder_id in components.coders
    }
    windowings = {
        channel.windowing_id: _windowing(components.windowing_strategies[channel.windowing_id])
        + (", in slices" if channel.slices else "")
        for channel in laid_out.channels
        if channel.windowing_id
    }
    words = {
        windowing: words_of(components.windowing_strategies[windowing]) for windowing in windowings
    }
    state = {}
    for superstep in laid_out.supersteps:
        for stage in superstep.stages:
            found = _cells(stage.transforms, components, fingerprints)
            if found:
                state[str(stage.stage_id)] = found
    return StateFacts(coders=coders, windowings=windowings, words=words, state=state)


def _windowing(strategy: Any) -> str:
    fn = strategy.window_fn
    parts = [
        fn.urn + (f"#{hashlib.sha256(fn.payload).hexdigest()[:8]}" if fn.payload else ""),
        f"trigger {' '.join(str(strategy.trigger).split())}",
        f"accumulation {strategy.accumulation_mode}",
        f"output time {strategy.output_time}",
        f"lateness {strategy.allowed_lateness} ms",
    ]
    return ", ".join(parts)


def _cells(transforms: bytes, components: Any, fingerprints: CoderFingerprints) -> dict[str, str]:
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(transforms)
    found: dict[str, str] = {}
    for proto in descriptor.transforms.values():
        if proto.spec.urn != _PAR_DO:
            continue
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        for cell, spec in payload.state_specs.items():
            kind = spec.WhichOneof("spec")
            ids = [
                value
                for field, value in getattr(spec, kind).ListFields()
                if field.name.endswith("coder_id")
            ]
            texts = ",".join(fingerprints.whole(i) for i in ids if i in components.coders)
            found[f"cell {cell}"] = f"{kind}<{texts}>"
        for family, timer in payload.timer_family_specs.items():
            found[f"timer {family}"] = f"domain {timer.time_domain}"
        if payload.state_specs or payload.timer_family_specs:
            (main,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
            coder_id = components.pcollections[main].coder_id
            found["key coder"] = fingerprints.key(coder_id) or fingerprints.whole(coder_id)
            if payload.requires_time_sorted_input:
                found["input sorted by time"] = f"elements<{fingerprints.whole(coder_id)}>"
    return found
