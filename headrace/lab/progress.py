"""Shows how a run goes on: one line that changes in a terminal, plain lines elsewhere.

Looks at a run from a thread of its own and never touches it. Nothing is shown of what takes less
than two seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from headrace.lab.data.generator import Generator
from headrace.lab.systems.system import Glance

QUIET_SECONDS = 2.0
#: How far lines are apart, in a terminal and elsewhere.
_LIVE_SECONDS, _LINE_SECONDS = 0.25, 5.0
#: The last moment of Beam's time: a watermark there has nothing left to wait for.
_END_MICROS = 9_223_372_036_854_775_000


@contextmanager
def showing(text: Callable[[float], str], style: str = "auto") -> Iterator[None]:
    """Show a line while the block runs.

    Args:
        text: gives the line for so many seconds since the beginning.
        style: live, plain, off, or auto: live in a terminal, plain elsewhere.
    """
    if style == "auto":
        style = "live" if sys.stderr.isatty() else "plain"
    if style == "off":
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(
        target=_show, args=(text, style == "live", stop), name="headrace-lab-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show(text: Callable[[float], str], live: bool, stop: threading.Event) -> None:
    start = time.monotonic()
    if stop.wait(QUIET_SECONDS):
        return
    begin, end = ("\r\x1b[2K", "") if live else ("", "\n")
    while True:
        sys.stderr.write(f"{begin}{text(time.monotonic() - start)}{end}")
        sys.stderr.flush()
        if stop.wait(_LIVE_SECONDS if live else _LINE_SECONDS):
            break
    if live:
        sys.stderr.write(begin)
        sys.stderr.flush()


@contextmanager
def watching(
    name: str, generator: Generator, pace: bool, style: str, look: Callable[[], Glance]
) -> Iterator[None]:
    """Show a run while the block runs."""
    speed = Speed()
    with showing(partial(_line_of, name, generator, pace, speed, look), style):
        yield


def _line_of(
    name: str, generator: Generator, pace: bool, speed: Speed, look: Callable[[], Glance],
    seconds: float,
) -> str:
    glance = look()
    rate = None if glance.events is None else speed.at(seconds, glance.events)
    return line(name, generator, glance, seconds=seconds, rate=rate, pace=pace)


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


def line(
    name: str, generator: Generator, glance: Glance, *, seconds: float, rate: float | None,
    pace: bool,
) -> str:
    """Say in one line how a run stands; what is not known is left out."""
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
    return f"headrace: {name}: {'; '.join([*parts, f'{seconds:.0f} s'])}"


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


def size(count: int) -> str:
    """Say a number of bytes.

    >>> size(2_500_000), size(1_200)
    ('2.5 MB', '1 KB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} KB"
