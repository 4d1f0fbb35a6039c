"""How does a system get over more than it sustains, and what is lost or late meanwhile?

Below the sustained rate, above it for a while, below it again. Told are the longest queue, the time
until it is short again and until results are as young as before, both from the end of the time
above; the share of the results that were late; and the rows that were lost or came twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.experiments.recovery import AS_BEFORE, young_again
from headrace.lab.experiments.spike import short_again
from headrace.lab.record.trial import Bench, Load, Trial

#: A queue of so many seconds of the rate below is short.
_SHORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestedLoad:
    """The shape of the load."""

    rate: float  # that is sustained, events per second
    times: float = 1.5  # the rate while there is congestion
    below: float = 0.5  # of the rate, before and after
    calm_seconds: float = 20.0
    over_seconds: float = 20.0
    after_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.times <= 1 or not 0 < self.below < 1:
            msg = (
                f"congestion of {self.times} times the rate, {self.below} of it before and after: "
                "it wants more than 1, and less than 1"
            )
            raise OptionError(msg)

    def schedule(self) -> Schedule:
        """Give the schedule."""
        return Schedule((
            Phase(self.calm_seconds, self.rate * self.below),
            Phase(self.over_seconds, self.rate * self.times),
            Phase(self.after_seconds, self.rate * self.below),
        ))


@dataclass(frozen=True, slots=True, kw_only=True)
class Congestion:
    """What congestion did. Times are from its end; None: it did not come to that."""

    trial: Trial
    longest_queue: int
    queue_seconds: float | None  # until the queue stayed short
    young_seconds: float | None  # until results stayed as young as before
    late_share: float | None  # of the results due from its begin on: older than those before it
    lost_rows: int
    doubled_rows: int
    void: str


def measure_congestion(bench: Bench, load: CongestedLoad) -> Congestion:
    """Put a system under more than it sustains, for a while."""
    trial = bench.trial(Load(schedule=load.schedule()))
    begin, end = load.calm_seconds, load.calm_seconds + load.over_seconds
    before, young = young_again(trial, begin, end)
    later = trial.due >= begin
    late = None
    if before is not None and later.any():
        late = float(np.mean(trial.latency[later] > before * AS_BEFORE))
    nothing = "" if before is not None else "no result came before the congestion"
    return Congestion(
        trial=trial, longest_queue=int(trial.queue_lengths.max(initial=0)),
        queue_seconds=short_again(trial, end, load.rate * load.below * _SHORT_SECONDS),
        young_seconds=young, late_share=late,
        lost_rows=trial.verdict.missing, doubled_rows=trial.verdict.surplus,
        void=trial.trouble or nothing,
    )
