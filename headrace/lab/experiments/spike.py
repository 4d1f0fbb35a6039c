"""Does a system come back to what it was after a load spike?

Calm, a spike of k times the rate, calm again. Told are the longest queue, the time until it is
short again, and the p99 before and after: a system whose p99 does not come back has hysteresis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.record.trial import Bench, Load, Trial
from headrace.lab.statistics.intervals import Interval, of_percentile
from headrace.lab.statistics.samples import together, warm_up_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeLoad:
    """The shape of the load."""

    rate: float
    times: float = 10.0
    calm_seconds: float = 30.0  # before, and twice as long after
    spike_seconds: float = 2.0
    short_seconds: float = 1.0  # a queue of so many seconds of the rate is short
    worse_at: float = 1.2  # a p99 so many times the one before has not come back

    def __post_init__(self) -> None:
        if self.times <= 1 or self.worse_at <= 1:
            msg = f"a spike of {self.times} times the rate, worse at {self.worse_at}: both above 1"
            raise OptionError(msg)

    def schedule(self) -> Schedule:
        """Give the schedule."""
        return Schedule((
            Phase(self.calm_seconds, self.rate),
            Phase(self.spike_seconds, self.rate * self.times),
            Phase(2 * self.calm_seconds, self.rate),
        ))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """What a spike did."""

    trial: Trial
    longest_queue: int
    recovery_seconds: float | None  # from the spike's end until the queue stays short; None: never
    before: Interval | None  # p99 in seconds; None: no results
    after: Interval | None  # of what was due after the recovery; None: no results
    came_back: bool
    void: str


def measure_spike(bench: Bench, spike: SpikeLoad) -> Spike:
    """Put a system under a spike."""
    trial = bench.trial(Load(schedule=spike.schedule()))
    start, end = spike.calm_seconds, spike.calm_seconds + spike.spike_seconds
    recovery = short_again(trial, end, spike.rate * spike.short_seconds)
    calm = trial.due < start
    cut = warm_up_seconds(trial.due[calm], trial.latency[calm])
    before = _p99(trial, cut, start)
    # The second half of the calm after the spike, at least: results of the recovery are not in it.
    rested = end + max(recovery or 0.0, spike.calm_seconds)
    after = None if recovery is None else _p99(trial, rested, float("inf"))
    came_back = (
        before is not None and after is not None and after.low <= before.high * spike.worse_at
    )
    return Spike(
        trial=trial, longest_queue=int(trial.queue_lengths.max(initial=0)),
        recovery_seconds=recovery, before=before, after=after, came_back=came_back,
        void=trial.trouble,
    )


def short_again(trial: Trial, end: float, short: float) -> float | None:
    """Give the seconds from a time until the queue stays shorter than this; None: never."""
    long = np.flatnonzero((trial.queue_lengths >= short) & (trial.queue_seconds >= end))
    if not len(long):
        return 0.0
    if long[-1] == len(trial.queue_seconds) - 1:
        return None
    # A queue that only got short because nothing came any more has not recovered.
    found = float(trial.queue_seconds[long[-1] + 1])
    return None if found > trial.load.schedule.seconds else found - end


def _p99(trial: Trial, start: float, end: float) -> Interval | None:
    there = (trial.due >= start) & (trial.due < end)
    if not there.any():
        return None
    return of_percentile(trial.latency[there], 0.99, together(trial.left[there]))
