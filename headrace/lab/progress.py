"""Says how a workload's run goes on, for the display that pipelines have too.

Looks at a run and never touches it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from headrace.lab.data.generator import Generator
from headrace.lab.systems.system import Glance
from headrace.terminal import display
from headrace.terminal.steps import HEAD, Rates, table
from headrace.terminal.view import View, duration, size

#: The last moment of Beam's time: a watermark there has nothing left to wait for.
_END_MICROS = 9_223_372_036_854_775_000


@contextmanager
def showing(what: str, style: str = "auto") -> Iterator[None]:
    """Say what is done while the block does it."""
    with display.showing(
        lambda seconds: View(title="headrace", parts=(what, duration(seconds))), style
    ):
        yield


@contextmanager
def watching(
    name: str, generator: Generator, pace: bool, style: str, look: Callable[[], Glance]
) -> Iterator[None]:
    """Show a run while the block runs."""
    with display.showing(partial(_look, name, generator, pace, Speed(), Rates(), look), style):
        yield


def _look(
    name: str, generator: Generator, pace: bool, speed: Speed, rates: Rates,
    look: Callable[[], Glance], seconds: float,
) -> View:
    glance = look()
    rate = None if glance.events is None else speed.at(seconds, glance.events)
    found = view(name, generator, glance, seconds=seconds, rate=rate, pace=pace)
    if not glance.steps or not glance.epoch_seconds:
        return found
    each = rates.at(seconds, {step.name: step.elements for step in glance.steps})
    seen = [replace(step, rate=each.get(step.name)) for step in glance.steps]
    return replace(found, head=HEAD, rows=table(seen, time.time()))


class Speed:
    """Events per second over the last few looks; a single epoch would make it jump."""

    _LOOKS = 12

    def __init__(self) -> None:
        self._looks: list[tuple[float, int]] = []

    def at(self, seconds: float, events: int) -> float:
        """Take one look; give the rate since the oldest one that is remembered."""
        self._looks = [*self._looks[-self._LOOKS :], (seconds, events)]
        then, before = self._looks[0] if len(self._looks) > 1 else (0.0, 0)
        return (events - before) / max(seconds - then, 1e-9)


def view(
    name: str, generator: Generator, glance: Glance, *, seconds: float, rate: float | None,
    pace: bool,
) -> View:
    """Say how a run stands; what is not known is left out."""
    title = f"headrace: {name}"
    if glance.epoch is not None and not glance.epoch_seconds:
        return View(title=title, parts=("starting workers for the first epoch", duration(seconds)))
    parts = []
    if glance.events is not None:
        parts.append(f"{glance.events:,} of {generator.events:,} events")
    if rate is not None:
        parts.append(f"{rate:,.0f} events/s")
    if glance.rows is not None:
        parts.append(f"{glance.rows:,} rows")
    lag = lag_seconds(generator, glance, seconds, pace)
    if lag is not None:
        parts.append(f"watermark lag {lag:.1f} s")
    if glance.epoch is not None and glance.epoch_seconds is not None and glance.epoch >= 0:
        parts.append(f"epoch {glance.epoch}: {glance.epoch_seconds * 1000:.0f} ms")
    if glance.state_bytes is not None:
        parts.append(f"state {size(glance.state_bytes)}")
    if glance.checkpoint_bytes:
        parts.append(f"checkpoint {size(glance.checkpoint_bytes)}")
    return View(title=title, parts=(*parts, duration(seconds)))


def lag_seconds(
    generator: Generator, glance: Glance, seconds: float, pace: bool
) -> float | None:
    """Say how far the watermark is behind the events that have arrived, in event time.

    In a paced run those have arrived that are due, read or not.
    """
    if glance.watermark is None or glance.events is None:
        return None
    if glance.watermark >= _END_MICROS:
        return 0.0
    arrived = glance.events
    if pace:
        due = bisect_right(range(generator.events), seconds * 1e6, key=generator.due)
        arrived = max(arrived, due)
    first = generator.watermark(0)
    behind = generator.watermark(arrived) - max(glance.watermark, first)
    return max(0.0, behind / 1e6)
