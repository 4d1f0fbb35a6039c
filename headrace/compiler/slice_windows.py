"""Decides which groupings keep slices of time instead of windows.

Before:  a grouping in sliding windows of 300 s every 1 s holds every value 300 times
After:   the same grouping holds it once, in its slice of 1 s; a window is 300 slices together

It can where each window fires once, at its end, and where windows begin at whole fractions of their
size. What follows the grouping sees no difference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2, standard_window_fns_pb2

from headrace.compiler.schedule import Schedule
from headrace.plan.slices import Slices
from headrace.plan.supersteps import Channel

_SLIDING = common_urns.sliding_windows.urn
_END_OF_WINDOW = beam_runner_api_pb2.OutputTime.END_OF_WINDOW
#: The most that Beam's coder of windows keeps.
_MILLISECOND = 1_000


def slice_windows(laid_out: Schedule, components: Any) -> Schedule:
    """Mark the channels whose groupings keep slices."""
    return replace(
        laid_out, channels=tuple(_marked(channel, components) for channel in laid_out.channels)
    )


def _marked(channel: Channel, components: Any) -> Channel:
    if not channel.groups or not channel.windowing_id:
        return channel
    slices = slices_of(components.windowing_strategies[channel.windowing_id])
    if slices is None:
        return channel
    why = (
        f"{channel.reason}; windows of {slices.size / 1e6:g} s every {slices.period / 1e6:g} s "
        f"overlap: one partial per slice of {slices.period / 1e6:g} s, not {slices.count} copies"
    )
    return replace(channel, slices=slices, reason=why)


def slices_of(strategy: Any) -> Slices | None:
    """Give the slices of a windowing strategy; None if it needs whole windows."""
    if (
        strategy.window_fn.urn != _SLIDING
        or strategy.output_time != _END_OF_WINDOW
        or strategy.trigger.WhichOneof("trigger") != "default"
        or strategy.allowed_lateness
    ):
        return None
    sliding = standard_window_fns_pb2.SlidingWindowsPayload.FromString(strategy.window_fn.payload)
    size, period = sliding.size.ToMicroseconds(), sliding.period.ToMicroseconds()
    offset = sliding.offset.ToMicroseconds() if sliding.HasField("offset") else 0
    if size <= period or size % period or any(t % _MILLISECOND for t in (size, period, offset)):
        return None
    return Slices(size=size, period=period, offset=offset)
