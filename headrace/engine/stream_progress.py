"""Shows how a streaming run goes on: one line that changes in a terminal, plain lines elsewhere.

Reads what the run shows of itself; never touches it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial

from headrace.engine.progress import LINE_SECONDS, POLL_SECONDS, QUIET_SECONDS, beside
from headrace.engine.standing import Standing
from headrace.engine.stream import Stream
from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.plan.supersteps import Plan


@contextmanager
def following(stream: Stream, plan: Plan, style: str) -> Iterator[None]:
    """Show progress while the block runs."""
    with beside(style, partial(_live, stream, plan), partial(_lines, stream, plan)):
        yield


def line(plan: Plan, standing: Standing, seconds: float) -> str:
    """Say in one line how a run stands."""
    marks = [out for _, out in standing.watermarks.values()]
    parts = [
        f"epoch {max(0, standing.epoch)}",
        f"{standing.epoch_seconds * 1000:.0f} ms",
        f"watermark {_moment(min(marks, default=MIN_TIME))}",
        f"state {standing.state_rows:,} rows, {_size(standing.state_bytes)}",
    ]
    if standing.pushed_back:
        parts.append(f"{standing.pushed_back:,} wait for side inputs")
    if standing.elements_late:
        parts.append(f"{standing.elements_late:,} too late")
    if standing.rows_untimed:
        parts.append(f"{standing.rows_untimed:,} without a time")
    if standing.retries:
        parts.append(f"{standing.retries:,} retries")
    return f"headrace: {plan.name}: {'; '.join(parts)}; {seconds:.0f} s"


def _moment(micros: int) -> str:
    if micros >= MAX_TIME:
        return "at the end"
    try:
        found = datetime.fromtimestamp(micros / 1e6, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "not known yet" if micros < 0 else "far ahead"
    return found.strftime("%Y-%m-%d %H:%M:%S")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} KB"


def _lines(stream: Stream, plan: Plan, stop: threading.Event) -> None:
    start = time.monotonic()
    wait = QUIET_SECONDS
    while not stop.wait(wait):
        print(line(plan, stream.standing, time.monotonic() - start), file=sys.stderr)
        wait = LINE_SECONDS


def _live(stream: Stream, plan: Plan, stop: threading.Event) -> None:
    if stop.wait(QUIET_SECONDS):
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    start = time.monotonic() - QUIET_SECONDS

    def text() -> Text:
        return Text(line(plan, stream.standing, time.monotonic() - start))

    with Live(text(), console=Console(stderr=True), refresh_per_second=4) as live:
        while not stop.wait(POLL_SECONDS):
            live.update(text())
        live.update(text())
