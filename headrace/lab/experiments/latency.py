"""How old are results at a share of the sustainable rate?

An open loop: events are sent when they are due, and a latency counts from then, so waiting in the
queue is part of it. The warm-up is cut by rule; percentiles come from the raw samples of each
repeat, and the interval from the repeats; of a single one from its stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.lab.data_engine.schedule import F64
from headrace.lab.record.trial import Trial
from headrace.lab.statistics.intervals import Interval, of_percentile, of_repeats
from headrace.lab.statistics.samples import percentile, together, warm_up_seconds

#: The percentiles that are told.
SHARES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What was found."""

    rate: float
    trials: tuple[Trial, ...]
    cuts: tuple[float, ...]  # seconds of warm-up, of each trial
    percentiles: tuple[tuple[float, Interval], ...]  # (share, seconds)
    mean: Interval | None  # None: no trial counts
    void: str

    def at(self, share: float) -> Interval:
        """Give one of the percentiles."""
        return dict(self.percentiles)[share]


def settled(trial: Trial, cut: float) -> F64:
    """Give the latencies of what was due after the warm-up."""
    return np.asarray(trial.latency[trial.due >= cut])


def summed_up(rate: float, trials: Sequence[Trial]) -> Latency:
    """Give the figures of trials at one rate; those in trouble have none."""
    void = next((trial.trouble for trial in trials if trial.trouble), "")
    void = void or next((trial.undated for trial in trials if trial.undated), "")
    cuts = tuple(warm_up_seconds(trial.due, trial.latency) for trial in trials)
    rested = [settled(trial, cut) for trial, cut in zip(trials, cuts, strict=True)]
    if any(not len(samples) for samples in rested):
        void = void or "a run gave no result after its warm-up"
    if void:
        return Latency(
            rate=rate, trials=tuple(trials), cuts=cuts, percentiles=(), mean=None, void=void
        )
    left = [trial.left[trial.due >= cut] for trial, cut in zip(trials, cuts, strict=True)]
    percentiles = tuple((share, _interval(rested, left, share)) for share in SHARES)
    return Latency(
        rate=rate, trials=tuple(trials), cuts=cuts, percentiles=percentiles,
        mean=of_repeats([float(samples.mean()) for samples in rested]), void="",
    )


def _interval(repeats: Sequence[F64], left: Sequence[F64], share: float) -> Interval:
    if len(repeats) == 1:
        return of_percentile(repeats[0], share, together(left[0]))
    return of_repeats([percentile(samples, share) for samples in repeats])
