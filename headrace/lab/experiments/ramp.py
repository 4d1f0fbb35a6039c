"""About which rate does a system keep up with? One run, whose rate grows step by step.

The run is cut off when an event has waited for too long. By then the system has been taking all
that it can for a while: what it took in that time is an estimate, from which a search sets out. No
figure comes from here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.record.trial import Load, Patience, Trial

#: Beside what was queued, the last result leaves so long after a system was cut off, if it has no
#: backlog of its own.
_USUAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """How the rate grows. Slow enough that a system is at its limit for twice `wait_seconds`."""

    first_rate: float
    times: float = 1.6  # the rate before
    step_seconds: float = 0.75
    steps: int = 16  # from 1,000 events/s to more than a million
    wait_seconds: float = 2.0  # of an event, after which the run is cut off

    def __post_init__(self) -> None:
        if self.first_rate <= 0 or self.times <= 1 or self.steps < 1:
            msg = f"a ramp of {self.steps} steps from {self.first_rate}, each {self.times} as fast"
            raise OptionError(msg)

    def load(self) -> Load:
        """Give the load."""
        rates = [self.first_rate * self.times**step for step in range(self.steps)]
        return Load(
            schedule=Schedule(tuple(Phase(self.step_seconds, rate) for rate in rates)),
            patience=Patience(limit_seconds=self.wait_seconds, by_age=True),
        )


def estimated(trial: Trial, ramp: Ramp) -> float:
    """Give the rate at which a system took events while it could not keep up.

    One that takes more than it computes is busy with that after it is cut off: that time counts.
    """
    schedule = trial.load.schedule
    if not (trial.unsustained or trial.void) or not len(trial.queue_lengths):
        return schedule.phases[-1].rate
    end = int(np.argmax(trial.queue_lengths))
    at = trial.queue_seconds
    begin = int(np.searchsorted(at, at[end] - 1.5 * ramp.wait_seconds))
    if end <= begin:
        return ramp.first_rate
    taken = [
        schedule.made_by(float(at[place])) - int(trial.queue_lengths[place])
        for place in (begin, end)
    ]
    after = float(trial.left.max(initial=trial.busy_seconds) - at[end])
    after -= ramp.wait_seconds + _USUAL_SECONDS
    rate = (taken[1] - taken[0]) / (float(at[end] - at[begin]) + max(0.0, after))
    return max(rate, ramp.first_rate / 2)
