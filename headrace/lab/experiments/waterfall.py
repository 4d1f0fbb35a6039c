"""Where does the latency of a result go?

The waterfall lays the means of the stages below each other; they add up to the mean latency.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lab.record.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a result's way."""

    name: str
    seconds: float  # mean over all results
    share: float  # of the mean latency


def waterfall(trial: Trial, cut: float = 0.0) -> tuple[Stretch, ...]:
    """Lay the stages of a trial out, in their order; what no stage explains is `other`."""
    rested = trial.due >= cut
    if not trial.stages or not rested.any():
        return ()
    total = float(trial.latency[rested].mean())
    means = {name: float(values[rested].mean()) for name, values in trial.stages.items()}
    rest = total - sum(means.values())
    if abs(rest) > 1e-6 * max(total, 1e-9):
        means["other"] = rest
    return tuple(
        Stretch(name=name, seconds=mean, share=mean / total if total else 0.0)
        for name, mean in means.items()
    )
