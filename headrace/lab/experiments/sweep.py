"""What does one setting do to the age of results and to what they cost, at one rate?

A run for each value: the same load, one setting changed. So two values differ by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.costs import costs_of
from headrace.lab.experiments.latency import summed_up
from headrace.lab.record.trial import Bench, Load, Trial
from headrace.lab.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What came of one value."""

    value: int
    trial: Trial
    median: Interval | None  # seconds; None: void
    p99: Interval | None
    cpu_seconds_per_million: float | None  # None: nobody could tell, or void
    void: str


def sweep(
    bench_with: Callable[[int], Bench], values: Sequence[int], *, rate: float, seconds: float
) -> tuple[Swept, ...]:
    """Run a system with each value of a setting.

    Args:
        bench_with: gives its bench with a value.
        values: of the setting.
        rate: events per second, the same for all.
        seconds: of each run.
    """
    return tuple(_swept(bench_with(value), value, rate, seconds) for value in values)


def _swept(bench: Bench, value: int, rate: float, seconds: float) -> Swept:
    trial = bench.trial(Load(schedule=Schedule.steady(rate, seconds)))
    found = summed_up(rate, [trial])
    cost = costs_of(trial)
    return Swept(
        value=value, trial=trial, void=found.void,
        median=None if found.void else found.at(0.5),
        p99=None if found.void else found.at(0.99),
        cpu_seconds_per_million=None if cost.void else cost.cpu_seconds_per_million,
    )
