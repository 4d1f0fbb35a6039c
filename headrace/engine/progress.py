"""Shows how far a run is: a bar in a terminal, plain lines elsewhere.

Reads Spark's status tracker from a thread of its own; never touches the run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from headrace.engine.session import Place
from headrace.plan.supersteps import Plan

#: Nothing is shown for runs shorter than this.
QUIET_SECONDS = 2.0
POLL_SECONDS = 0.25
#: Plain lines are at least this far apart.
LINE_SECONDS = 5.0


@contextmanager
def watching(place: Place, group: str, plan: Plan, style: str) -> Iterator[None]:
    """Show progress while the block runs."""
    live, lines = partial(_bar, place, group, plan), partial(_lines, place, group, plan)
    with beside(style, live, lines):
        yield


@contextmanager
def beside(
    style: str, live: Callable[[threading.Event], None], lines: Callable[[threading.Event], None]
) -> Iterator[None]:
    """While the block runs, let a thread show it in the style that was asked for.

    Args:
        style: rich, plain, off, or auto: rich in a terminal, plain elsewhere.
        live: shows it in a terminal until the event is set.
        lines: shows it in plain lines until the event is set.
    """
    if style == "auto":
        style = "rich" if sys.stderr.isatty() else "plain"
    if style == "off":
        yield
        return
    stop = threading.Event()
    show = live if style == "rich" else lines
    thread = threading.Thread(target=show, args=(stop,), name="headrace-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tasks_done(place: Place, group: str, plan: Plan) -> tuple[int, int]:
    """Give (finished, all) tasks of the run."""
    total = len(plan.supersteps) * plan.shards
    tracker = place.parent.sparkContext.statusTracker()
    done = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job: Any = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            done += stage.numCompletedTasks if stage else 0
    return min(done, total), total


def _lines(place: Place, group: str, plan: Plan, stop: threading.Event) -> None:
    start = time.monotonic()
    wait = QUIET_SECONDS
    while not stop.wait(wait):
        done, total = tasks_done(place, group, plan)
        seconds = time.monotonic() - start
        print(f"headrace: {plan.name}: {done}/{total} tasks, {seconds:.0f} s", file=sys.stderr)
        wait = LINE_SECONDS


def _bar(place: Place, group: str, plan: Plan, stop: threading.Event) -> None:
    if stop.wait(QUIET_SECONDS):
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("tasks"), TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        total = len(plan.supersteps) * plan.shards
        bar = progress.add_task(plan.name, total=total)
        while not stop.wait(POLL_SECONDS):
            progress.update(bar, completed=tasks_done(place, group, plan)[0])
        progress.update(bar, completed=tasks_done(place, group, plan)[0])
