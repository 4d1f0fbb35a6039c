"""Says in words how a collection is windowed, for people to read; nothing is compared by it."""

from __future__ import annotations

from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.trigger import TriggerFn
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, WindowFn

_PLAIN = frozenset({
    common_urns.global_windows.urn, common_urns.fixed_windows.urn, common_urns.sliding_windows.urn,
    common_urns.session_windows.urn,
})  # fmt: skip


def words_of(strategy: Any) -> dict[str, str]:
    """Describe a windowing strategy, part by part."""
    mode = beam_runner_api_pb2.AccumulationMode.Enum.Name(strategy.accumulation_mode)
    return {
        "windows": _windows(strategy.window_fn),
        "trigger": str(TriggerFn.from_runner_api(strategy.trigger, None)),
        "panes": mode.lower(),
        "allowed lateness": seconds(strategy.allowed_lateness * 1000),
    }


def _windows(spec: Any) -> str:
    if spec.urn not in _PLAIN:
        return f"windows of a function of your own ({spec.urn})"
    match WindowFn.from_runner_api(spec, None):
        case FixedWindows() as fixed:
            return f"fixed windows of {seconds(fixed.size.micros)}" + _from(fixed.offset.micros)
        case SlidingWindows() as sliding:
            every = f"every {seconds(sliding.period.micros)}"
            words = f"sliding windows of {seconds(sliding.size.micros)} {every}"
            return words + _from(sliding.offset.micros)
        case Sessions() as sessions:
            return f"sessions with a gap of {seconds(sessions.gap_size.micros)}"
        case _:
            return "the global window"


def _from(offset: int) -> str:
    return f" from {seconds(offset)} on" if offset else ""


def seconds(micros: int) -> str:
    """Give a length of time.

    >>> seconds(10_000_000), seconds(1_500_000), seconds(86_400_000_000)
    ('10 s', '1.5 s', '86400 s')
    """
    return f"{micros / 1e6:.6f}".rstrip("0").rstrip(".") + " s"
