"""What does a million events cost, and does the state grow?

Processor time per million events, the data engine's apart; memory and bytes of checkpoint. The
state's growth is a line through its size over time, with an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lab.data_engine.schedule import F64, I64, Schedule
from headrace.lab.record.trial import Bench, Load, Trial
from headrace.lab.statistics.intervals import Slope, slope_of

_MILLION = 1e6
_LEAST_LOOKS = 3


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
    """How what a system keeps grows while the rate is steady, in bytes per second."""

    trial: Trial
    state: Slope | None  # None: too few looks at it, or the system does not tell
    checkpoint: Slope | None  # None: too few looks, or there is none in files
    void: str


def measure_growth(bench: Bench, *, rate: float, seconds: float) -> StateGrowth:
    """Run at a steady rate and look at the state; what it is at first does not count."""
    load = Load(schedule=Schedule.steady(rate, seconds), looks_at_state=True)
    trial = bench.trial(load)
    state = _growth(trial.state_seconds, trial.state_bytes, seconds)
    checkpoint = _growth(trial.checkpoint_seconds, trial.checkpoint_bytes, seconds)
    seen = state is not None or checkpoint is not None
    void = trial.trouble or ("" if seen else "the state was not looked at")
    return StateGrowth(trial=trial, state=state, checkpoint=checkpoint, void=void)


def _growth(at: F64, sizes: I64, seconds: float) -> Slope | None:
    rested = (at >= seconds / 4) & (at <= seconds)
    if np.count_nonzero(rested) < _LEAST_LOOKS:
        return None
    return slope_of(at[rested], sizes[rested].astype(np.float64))
