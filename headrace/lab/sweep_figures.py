"""Sweeps the settings that a spec names, and gives figures for each of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from headrace.lab.benches import known_settings
from headrace.lab.experiments.sweep import sweep
from headrace.lab.figures import Figures
from headrace.lab.record.trial import Bench
from headrace.lab.results.summary import REFUSED
from headrace.lab.spec import SWEPT, SweepSpec


def sweep_figures(
    bench_with: Callable[[Mapping[str, Any]], Bench], kind: str, settings: SweepSpec, rate: float,
    figures: Figures,
) -> None:
    """Sweep one setting after the other.

    Args:
        bench_with: gives the bench of the system with some settings changed.
        kind: of the system.
        settings: what the spec asks for.
        rate: of all runs.
        figures: takes the figures, and the trials.
    """
    trials = count()
    for name in SWEPT:
        values: tuple[int, ...] = getattr(settings, name)
        if values and name not in known_settings(kind):
            there = ", ".join(known_settings(kind)) or "none"
            why = f"{REFUSED}{kind} has no setting {name}; those that can be swept are {there}"
            figures.plain(f"p99 at any {name}", "s", None, why)
            continue
        for each in sweep(
            lambda value, name=name: bench_with({name: value}),  # type: ignore[misc]
            values, rate=rate, seconds=settings.seconds,
        ):
            at = f"{name} = {each.value}"
            figures.told(f"{at} at {rate:,.0f} events/s, {each.void or 'right'}")
            figures.keep(each.trial, next(trials))
            figures.add(f"p99 at {at}", "s", each.p99, each.void)
            if each.void:
                continue
            figures.add(f"median at {at}", "s", each.median)
            if each.cpu_seconds_per_million is not None:
                unit = "s per million events"
                figures.plain(f"cpu at {at}", unit, each.cpu_seconds_per_million)
