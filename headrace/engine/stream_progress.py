"""Says how a streaming run goes on: its epoch, watermark and state, and how each step stands.

Reads what the run shows of itself; never touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headrace.engine.clock import WallClock
from headrace.engine.layouts import Layout
from headrace.engine.metrics import of_steps
from headrace.engine.status import StreamStatus
from headrace.engine.stream import Stream
from headrace.plan.supersteps import Plan
from headrace.terminal.display import showing
from headrace.terminal.steps import HEAD, Rates, StepView, table
from headrace.terminal.view import View, duration, lag, moment, number, size


@contextmanager
def following(stream: Stream, plan: Plan, style: str) -> Iterator[None]:
    """Show progress while the block runs."""
    with showing(looking(stream, plan), style):
        yield


def looking(stream: Stream, plan: Plan) -> Callable[[float], View]:
    """Give what looks at a run."""
    rates = Rates()

    def look(seconds: float) -> View:
        status = stream.status
        steps = step_views(plan, status)
        found = rates.at(seconds, {step.name: step.elements for step in steps})
        return view(plan, status, steps, found, seconds, WallClock().now() / 1e6)

    return look


def view(
    plan: Plan, status: StreamStatus, steps: list[StepView], rates: Mapping[str, float],
    seconds: float, now: float,
) -> View:
    """Say how a stream stands.

    Args:
        plan: what is run.
        status: what the run shows of itself.
        steps: how each step stands.
        rates: elements per second, by step.
        seconds: since the beginning.
        now: the time of the clock, in seconds.
    """
    title = f"headrace: {plan.name}"
    if not status.epoch_seconds:  # no epoch has been run by this process
        return View(title=title, parts=(_beginning(status), duration(seconds)))
    mark = least_mark(status)
    parts = [
        f"epoch {status.epoch}", f"{status.epoch_seconds * 1000:.0f} ms",
        *([status.layouts.last.value] if status.layouts.last is Layout.ONE_TASK else []),
        *([f"watermark {moment(mark)}"] if moment(mark) else []),
        *([f"lag {lag(mark, now)}"] if lag(mark, now) else []),
        *([f"{number(max(rates.values()))}/s"] if any(rates.values()) else []),
        *troubles(status),
        f"state {status.state_rows:,} rows, {size(status.state_bytes)}",
        duration(seconds),
    ]  # fmt: skip
    seen = [
        StepView(
            name=s.name, elements=s.elements, rate=rates.get(s.name), watermark=s.watermark,
            state_bytes=s.state_bytes, busy_seconds=s.busy_seconds,
        )
        for s in steps
    ]  # fmt: skip
    return View(title=title, parts=tuple(parts), head=HEAD, rows=table(seen, now))


def _beginning(status: StreamStatus) -> str:
    if status.epoch >= 0:
        return f"starting workers to go on after epoch {status.epoch}"
    return "starting workers for the first epoch"


def troubles(status: StreamStatus) -> list[str]:
    """Say what a user may want to do something about."""
    counts = {
        "wait for side inputs": status.pushed_back, "too late": status.elements_late,
        "without a time": status.rows_untimed, "retries": status.retries,
    }  # fmt: skip
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def least_mark(status: StreamStatus) -> int | None:
    """Give the least output watermark of all steps; None: none holds one."""
    return min((out for _, out in status.watermarks.values()), default=None)


def step_views(plan: Plan, status: StreamStatus) -> list[StepView]:
    """Say how each step that the user has named stands; what is inside of it counts for it."""
    transforms = tuple(stage.transforms for stage in plan.stages())
    figures = of_steps(transforms, status.monitoring_infos)
    held: dict[str, int] = {}
    order: dict[str, None] = {}
    for superstep in plan.supersteps:
        names = dict.fromkeys(
            operator.partition("/")[0] for stage in superstep.stages for operator in stage.operators
        )
        order |= names
        kept = status.state_of_supersteps.get(superstep.index, 0)
        first = next(iter(names), "")
        if kept and first:
            held[first] = held.get(first, 0) + kept
    marks: dict[str, int] = {}
    for name, (_, out) in status.watermarks.items():
        step = name.partition("/")[0]
        marks[step] = min(marks.get(step, out), out)
    return [
        StepView(
            name=name, elements=figures.get(name, (0, 0.0))[0], watermark=marks.get(name),
            state_bytes=held.get(name), busy_seconds=figures.get(name, (0, 0.0))[1],
        )
        for name in order
    ]  # fmt: skip
