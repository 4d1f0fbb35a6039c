"""What is the highest rate that a system keeps up with?

A rate is probed by a run that the data engine's rule cuts off. Grow until one is not sustained,
bisect between the last two, confirm by a longer run. A short run may end before the queue is too
long, so a queue that surely grows by more than half the precision counts as well. Every probe's
answer is checked: one lost or doubled row voids the figure, and so does a late data engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import sqrt

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.trial import Bench, Load, Patience, Trial
from headrace.lab.statistics.intervals import slope_of

#: Looks at a queue below which no line is laid through them.
_LEAST_LOOKS = 20


class ProbeStatus(Enum):
    """What a probe says of its rate."""

    KEPT_UP = "kept up"
    FELL_BEHIND = "fell behind"
    VOID = "void"  # the probe does not count: wrong answer, or the engine itself was late


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How the rate is searched."""

    first_rate: float
    precision: float = 0.02  # the search ends when the bounds are so near each other
    probe_seconds: float = 20.0
    confirm_seconds: float = 60.0
    patience: Patience = field(default_factory=Patience)
    most_probes: int = 40
    #: A probe that was void, but for a wrong answer, is made a second time: one that a busy machine
    #: has spoilt is not to spoil the search. A wrong answer counts at once.
    again_if_void: bool = True

    def __post_init__(self) -> None:
        if self.first_rate <= 0 or not 0 < self.precision < 1:
            msg = f"a search from {self.first_rate} events/s to within {self.precision}"
            raise OptionError(msg)
        if self.probe_seconds <= self.patience.limit_seconds:
            msg = (
                f"probes of {self.probe_seconds} s end before a queue can be too long for "
                f"{self.patience.limit_seconds} s: no rate would be refused"
            )
            raise OptionError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One rate that was tried."""

    rate: float
    status: ProbeStatus
    reason: str
    is_confirmation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustainable:
    """What the search found."""

    rate: float  # 0: none was sustained
    probes: tuple[Probe, ...]
    void: str  # why the figure does not count; empty if it does
    confirmation: Trial | None  # the longer run at that rate


class _VoidError(Exception):
    """A probe does not count, so the search does not either."""


class _Probing:
    def __init__(
        self, bench: Bench, search: Search, cores: int | None, told: Callable[[Probe], None]
    ) -> None:
        self._bench, self._search, self._cores, self._told = bench, search, cores, told
        self.probes: list[Probe] = []
        self.kept_up: Trial | None = None  # the last one, which is the one at the highest rate

    def keeps_up(self, rate: float, seconds: float, *, is_confirmation: bool = False) -> bool:
        if len(self.probes) >= self._search.most_probes:
            msg = f"no rate was found in {len(self.probes)} probes"
            raise _VoidError(msg)
        load = Load(
            schedule=Schedule.steady(rate, seconds), patience=self._search.patience,
            cores=self._cores,
        )
        trial = self._once(load, is_confirmation=is_confirmation)
        if trial.void and self._search.again_if_void:
            trial = self._once(load, is_confirmation=is_confirmation)
        status, reason = _status(trial, self._search)
        if status is ProbeStatus.VOID:
            msg = f"at {rate:,.0f} events/s: {reason}"
            raise _VoidError(msg)
        if status is ProbeStatus.KEPT_UP:
            self.kept_up = trial
        return status is ProbeStatus.KEPT_UP

    def _once(self, load: Load, *, is_confirmation: bool) -> Trial:
        trial = self._bench.trial(load)
        status, reason = _status(trial, self._search)
        probe = Probe(
            rate=load.schedule.phases[0].rate, status=status, reason=reason,
            is_confirmation=is_confirmation,
        )
        self.probes.append(probe)
        self._told(probe)
        return trial


def _status(trial: Trial, search: Search) -> tuple[ProbeStatus, str]:
    if trial.trouble:
        return ProbeStatus.VOID, trial.trouble
    if trial.unsustained:
        return ProbeStatus.FELL_BEHIND, trial.unsustained
    growing = _growing(trial, search)
    if growing:
        return ProbeStatus.FELL_BEHIND, growing
    return ProbeStatus.KEPT_UP, ""


def _growing(trial: Trial, search: Search) -> str:
    """Say by how much the queue surely grows in the second half; empty if it need not.

    Epochs make a queue rise and fall: a half with fewer than five times what is acceptable, and so
    with few epochs, says nothing.
    """
    seconds, rate = trial.load.schedule.seconds, trial.load.schedule.phases[0].rate
    if seconds < 10 * search.patience.acceptable_seconds:
        return ""
    half = (trial.queue_seconds >= seconds / 2) & (trial.queue_seconds <= seconds)
    if np.count_nonzero(half) < _LEAST_LOOKS:
        return ""
    found = slope_of(trial.queue_seconds[half], trial.queue_lengths[half].astype(np.float64))
    if found.slope.low <= rate * search.precision / 2:
        return ""
    return f"the queue grows by {found.slope.value:,.0f} events a second"


def _untold(probe: Probe) -> None:
    del probe


def find_rate(
    bench: Bench, search: Search, *, cores: int | None = None,
    told: Callable[[Probe], None] = _untold,
) -> Sustainable:
    """Search the highest rate that is sustained.

    Args:
        bench: runs the probes.
        search: how.
        cores: that the system gets; all if None.
        told: hears of every probe.
    """
    probing = _Probing(bench, search, cores, told)
    rate, confirmation, void = 0.0, None, ""
    try:
        low, high = _bracket(probing, search)
        if low:
            low, _ = _bisect(probing, search, low, high, search.probe_seconds)
            if not probing.keeps_up(low, search.confirm_seconds, is_confirmation=True):
                # Too short a probe had let it pass; from here on all are long.
                low, high = _step_down(probing, search, low)
                if low:
                    low, _ = _bisect(probing, search, low, high, search.confirm_seconds)
        if low:
            rate, confirmation = low, probing.kept_up
    except _VoidError as error:
        void = str(error)
    return Sustainable(
        rate=rate, probes=tuple(probing.probes), void=void, confirmation=confirmation
    )


def _bracket(probing: _Probing, search: Search) -> tuple[float, float]:
    """Find a rate that is sustained and one that is not; the first is 0 if none is."""
    rate = search.first_rate
    if probing.keeps_up(rate, search.probe_seconds):
        while probing.keeps_up(rate * 2, search.probe_seconds):
            rate *= 2
        return rate, rate * 2
    while True:
        lower = _below(rate, search)
        if not lower:
            return 0.0, rate
        if probing.keeps_up(lower, search.probe_seconds):
            return lower, rate
        rate = lower


def _step_down(probing: _Probing, search: Search, high: float) -> tuple[float, float]:
    """Find a rate below that a long run sustains, in steps that grow; 0 if there is none."""
    low, step = high, 2 * search.precision
    while True:
        low, step = low * (1 - step), min(0.5, 2 * step)
        if low < search.first_rate / 1024:
            return 0.0, high
        if probing.keeps_up(low, search.confirm_seconds, is_confirmation=True):
            return low, high
        high = low


def _below(rate: float, search: Search) -> float:
    """Half the rate; 0 where nobody would call it a rate any more."""
    return rate / 2 if rate / 2 >= search.first_rate / 1024 else 0.0


def _bisect(
    probing: _Probing, search: Search, low: float, high: float, seconds: float
) -> tuple[float, float]:
    while high / low > 1 + search.precision:
        middle = sqrt(low * high)
        if probing.keeps_up(middle, seconds):
            low = middle
        else:
            high = middle
    return low, high
