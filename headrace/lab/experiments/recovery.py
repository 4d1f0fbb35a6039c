"""What does a fault cost, and is the answer still right?

A fault in mid-run. Told are the time until results are as young as before, and whether every row
came once: a fault that loses or doubles a row voids the figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.record.trial import Bench, Fault, Load, Trial
from headrace.lab.statistics.samples import percentile, warm_up_seconds

#: Results as young as before: within this of the p99 of the time before the fault.
AS_BEFORE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a fault did."""

    trial: Trial
    before_seconds: float | None  # p99 before the fault; None: no results
    recovery_seconds: float | None  # from its end until results stay as young; None: never
    void: str


def measure_fault(bench: Bench, *, rate: float, seconds: float, fault: Fault) -> Recovery:
    """Run a system at a rate, and do it harm."""
    trial = bench.trial(Load(schedule=Schedule.steady(rate, seconds), fault=fault))
    over = fault.at_seconds + fault.lasts_seconds
    before, recovery = young_again(trial, fault.at_seconds, over)
    nothing = "" if before is not None else "there was no result before the fault"
    return Recovery(
        trial=trial, before_seconds=before, recovery_seconds=recovery,
        void=trial.trouble or nothing,
    )


def young_again(trial: Trial, at: float, over: float) -> tuple[float | None, float | None]:
    """Give the p99 before a disturbance, and the seconds until results stay about as young.

    Args:
        trial: that was disturbed.
        at: when that began.
        over: when it was over; the seconds count from there.

    Returns:
        The p99, None if there was no result before; the seconds, None if it never came to that.
    """
    calm = trial.left < at
    if not calm.any():
        return None, None
    cut = warm_up_seconds(trial.due[calm], trial.latency[calm])
    before = percentile(trial.latency[calm & (trial.due >= cut)], 0.99)
    hurt = ~calm & (trial.latency > before * AS_BEFORE)
    if not hurt.any():
        return before, 0.0
    last = float(trial.left[hurt].max())
    young = bool(np.any(trial.left > last))
    return before, max(0.0, last - over) if young else None
