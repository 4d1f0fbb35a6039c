"""Says how far a batch is: tasks, elements, rate, and an estimate of the rest.

Reads Spark's status tracker and what workers of this machine tell; never touches the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headrace.engine.listening import TaskCount, ear
from headrace.engine.spark.session import SparkTarget
from headrace.plan.supersteps import Plan
from headrace.terminal.display import showing
from headrace.terminal.steps import Rates
from headrace.terminal.view import View, duration, number, shortened

Counts = Mapping[tuple[int, int], TaskCount]
#: An estimate before this share is done, or this time is over, would be a guess.
LEAST_SHARE, LEAST_SECONDS = 0.05, 3.0
HEAD = ("steps", "in", "out", "rate", "tasks")
_NAMES = 44


@contextmanager
def watching(target: SparkTarget, group: str, plan: Plan, style: str) -> Iterator[None]:
    """Show progress while the block runs."""
    with showing(looking(target, group, plan), style):
        yield


def looking(target: SparkTarget, group: str, plan: Plan) -> Callable[[float], View]:
    """Give what looks at a run."""
    rates, begun = Rates(), [0.0]

    def look(seconds: float) -> View:
        heard = ear()
        counts = heard.counts(group) if heard is not None else {}
        done, total = tasks_done(target, group, plan)
        if not done and not counts:
            begun[0] = seconds  # the start of the workers says nothing of what comes behind it
        rate = rates.at(seconds, _taken(plan, counts))
        rest = rest_seconds(plan, done, total, counts, seconds - begun[0])
        return view(plan, done, total, counts, rate, seconds, rest)

    return look


def tasks_done(target: SparkTarget, group: str, plan: Plan) -> tuple[int, int]:
    """Give (finished, all) tasks of the run."""
    total = len(plan.supersteps) * plan.shards
    done = target.door.tasks_done(group)
    return min(done, total), total


def view(
    plan: Plan, done: int, total: int, counts: Counts, rates: Mapping[str, float], seconds: float,
    rest: float | None,
) -> View:
    """Say how a batch stands.

    Args:
        plan: what is run.
        done: tasks that have ended.
        total: tasks in all.
        counts: what tasks tell of themselves, by superstep and shard; nothing on a cluster.
        rates: elements per second, by superstep.
        seconds: since the beginning.
        rest: an estimate of the seconds that are left.
    """
    title = f"headrace: {plan.name}"
    if not done and not counts:
        return View(title=title, parts=("starting workers", duration(seconds)))
    parts = [f"{done}/{total} tasks", duration(seconds)]
    moved = sum(max(count.taken, count.given) for count in counts.values())
    if moved:
        parts.insert(1, f"{number(moved)} elements")
        parts.insert(2, f"{number(sum(rates.values()))}/s")
    if rest is not None:
        parts.append(f"about {duration(rest)} left")
    return View(title=title, parts=tuple(parts), head=HEAD, rows=_rows(plan, counts, rates))


def rest_seconds(
    plan: Plan, done: int, total: int, counts: Counts, seconds: float
) -> float | None:
    """Estimate how long the rest takes; None while it would be a guess.

    A task that is under way counts by the share of its input that it has taken, where the superstep
    before it has ended and so has said how much there is.
    """
    share = done / total if total else 0.0
    for superstep in range(1, len(plan.supersteps)):
        before = [c for (s, _), c in counts.items() if s == superstep - 1]
        here = [c for (s, _), c in counts.items() if s == superstep and not c.done]
        given = sum(c.given for c in before)
        if len(before) == plan.shards and all(c.done for c in before) and given:
            share += sum(min(1.0, c.taken * plan.shards / given) for c in here) / max(total, 1)
    if share < LEAST_SHARE or share > 1 or seconds < LEAST_SECONDS:
        return None
    return seconds * (1 - share) / share


def _taken(plan: Plan, counts: Counts) -> dict[str, int]:
    found: dict[str, int] = {}
    for superstep in range(len(plan.supersteps)):
        here = [c for (s, _), c in counts.items() if s == superstep]
        found[str(superstep)] = sum(max(c.taken, c.given) for c in here)
    return found


def _rows(plan: Plan, counts: Counts, rates: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for index, superstep in enumerate(plan.supersteps):
        here = [c for (s, _), c in counts.items() if s == index]
        names = dict.fromkeys(
            operator.partition("/")[0] for stage in superstep.stages for operator in stage.operators
        )
        ended = sum(c.done for c in here)
        rows.append((
            shortened(", ".join(names), _NAMES),
            number(sum(c.taken for c in here)) if here and index else "",
            number(sum(c.given for c in here)) if here else "",
            f"{number(rates.get(str(index), 0.0))}/s" if here and ended < plan.shards else "",
            f"{ended}/{plan.shards}" if here else "",
        ))  # fmt: skip
    return tuple(rows)
