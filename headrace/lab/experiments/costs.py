"""What does a million events cost, and does the state grow?

Processor time per million events, the data engine's apart; memory and bytes of checkpoint. The
state's growth is a line through its size over time, with an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.trial import Bench, Load, Trial
from headrace.lab.statistics.intervals import Slope, slope_of

_MILLION = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was used; None where nobody could tell."""

    trial: Trial
    cpu_seconds_per_million: float | None
    engine_cpu_seconds_per_million: float | None
    peak_bytes: int | None
    checkpoint_bytes: int | None
    void: str


def costs_of(trial: Trial) -> Costs:
    """Say what a run used, per million events."""
    def each(seconds: float | None) -> float | None:
        return None if seconds is None or not trial.made else seconds / trial.made * _MILLION

    cost = trial.cost
    return Costs(
        trial=trial, cpu_seconds_per_million=each(cost.cpu_seconds),
        engine_cpu_seconds_per_million=each(cost.engine_cpu_seconds),
        peak_bytes=cost.peak_bytes, checkpoint_bytes=cost.checkpoint_bytes, void=trial.trouble,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGrowth:
    """How the state grows while the rate is steady."""

    trial: Trial
    bytes_per_second: Slope | None  # None: too few looks at the state
    void: str


def measure_growth(bench: Bench, *, rate: float, seconds: float) -> StateGrowth:
    """Run at a steady rate and look at the state; what it is at first does not count."""
    trial = bench.trial(Load(schedule=Schedule.steady(rate, seconds)))
    rested = (trial.state_seconds >= seconds / 4) & (trial.state_seconds <= seconds)
    at, sizes = trial.state_seconds[rested], trial.state_bytes[rested].astype(np.float64)
    found = slope_of(at, sizes) if len(at) >= 3 else None
    void = trial.trouble or ("" if found is not None else "the state was not looked at")
    return StateGrowth(trial=trial, bytes_per_second=found, void=void)
