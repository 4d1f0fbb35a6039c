"""Where does the latency of a result go? And which step, made faster, would make the whole faster?

The waterfall lays the means of the stages below each other; they add up to the mean latency. The
causal profile makes one step faster virtually: all others are slowed, and the rate that is then
sustained is counted in their slower time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.experiments.sustainable import Search, find_rate
from headrace.lab.experiments.trial import Bench, Load, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of a result's way."""

    name: str
    seconds: float  # mean over all results
    share: float  # of the mean latency


def waterfall(trial: Trial, cut: float = 0.0) -> tuple[Stage, ...]:
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
        Stage(name=name, seconds=mean, share=mean / total if total else 0.0)
        for name, mean in means.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """What a faster step would give."""

    step: str
    times: float  # faster
    gain: float  # of the sustainable rate: 0.18 is 18 % more
    void: str


def causal_profile(
    bench: Bench, search: Search, steps: Sequence[str], *, times: float = 2.0
) -> tuple[SpeedUp, ...]:
    """Say, for each step, what the rate would be if it were so many times as fast."""
    if times <= 1:
        msg = f"a step {times} times as fast is no faster"
        raise OptionError(msg)
    base = find_rate(bench, search)
    found = []
    for step in steps:
        slowed = {other: times for other in steps if other != step}
        with_slow = find_rate(_Slowed(bench, slowed), search)
        void = base.void or with_slow.void or ("" if base.rate else "no rate was sustained")
        gain = 0.0 if void else with_slow.rate * times / base.rate - 1
        found.append(SpeedUp(step=step, times=times, gain=gain, void=void))
    return tuple(found)


class _Slowed:
    """A bench whose loads slow some steps."""

    def __init__(self, bench: Bench, slowed: dict[str, float]) -> None:
        self._bench, self._slowed = bench, slowed

    @property
    def name(self) -> str:
        return self._bench.name

    def trial(self, load: Load) -> Trial:
        return self._bench.trial(
            Load(
                schedule=load.schedule, patience=load.patience, cores=load.cores,
                fault=load.fault, slowed=self._slowed,
            )
        )
