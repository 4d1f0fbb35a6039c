"""What is the highest rate that a system keeps up with?

A rate is probed by a run that the data engine's rule cuts off. Grow until one is not sustained,
bisect between the last two, confirm by a longer run. A ramp may come first, whose estimate makes
the steps smaller. A short run may end before the queue is too long, so a queue that surely grows by
more than half the precision counts as well, and so does a backlog inside the system: results that
leave long after the load. There may be a bound on latency too. Every probe's answer is checked: one
lost or doubled row voids the figure. So does a late data engine, unless a lower rate was sustained:
then the system may be able to do more than the lab can send, and the figure is the least of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, repeat
from math import sqrt

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.queue import LATE
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.latency import settled
from headrace.lab.experiments.ramp import Ramp, estimated
from headrace.lab.record.trial import Bench, Load, Patience, Trial
from headrace.lab.statistics.intervals import slope_of
from headrace.lab.statistics.samples import percentile, warm_up_seconds

#: Looks at a queue below which no line is laid through them.
_LEAST_LOOKS = 20
#: The least step from a rate that is near; two of them are made.
_NEAR_STEP = 1.25
#: That a system works on after its last result has left, at most.
_REST_SECONDS = 1.0
#: An estimate's share below which no rate is looked for.
_NEAR_LEAST = 32


class ProbeStatus(Enum):
    """What a probe says of its rate."""

    KEPT_UP = "kept up"
    FELL_BEHIND = "fell behind"
    ESTIMATED = "estimated"  # of a ramp: no probe of a rate
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
    ramp: bool = False  # let one run with a growing rate say where to begin
    is_near: bool = False  # the first rate is an estimate: steps from it are small
    #: The first probe falls on a system that has just been started, and may say no more than that:
    #: it is made again if it falls behind.
    is_cold: bool = False
    p99_seconds: float = 0.0  # a rate with a greater one does not count; 0: any does
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
    is_least: bool = False  # no higher rate could be sent
    ramp: Trial | None = None  # the run whose rate grew; None: none was asked for


class _VoidError(Exception):
    """A probe does not count, so the search does not either."""


class _Probing:
    def __init__(
        self, bench: Bench, search: Search, told: Callable[[Probe], None]
    ) -> None:
        self._bench, self._search, self._told = bench, search, told
        self.probes: list[Probe] = []
        self.kept_up: Trial | None = None  # the last one, which is the one at the highest rate
        self.ramped: Trial | None = None
        self.unsent = 0.0  # a rate above that one which data engines could not hold; 0: none

    def ramp(self, first_rate: float) -> float:
        """Estimate the rate by one run; the first rate if it does not count."""
        ramp = Ramp(first_rate=first_rate)
        trial = self.ramped = self._bench.trial(ramp.load())
        if trial.trouble and not trial.void:
            msg = f"in a ramp: {trial.trouble}"
            raise _VoidError(msg)
        # What it took is an estimate even where the engine could not send all that it was to.
        is_void = bool(trial.void) and not trial.void.startswith(LATE)
        rate = ramp.first_rate if is_void else estimated(trial, ramp)
        reason = f"a ramp, {trial.void or 'which gives an estimate'}"
        status = ProbeStatus.VOID if is_void else ProbeStatus.ESTIMATED
        self.probes.append(Probe(rate=rate, status=status, reason=reason))
        self._told(self.probes[-1])
        return rate

    def keeps_up(self, rate: float, seconds: float, *, is_confirmation: bool = False) -> bool:
        if len(self.probes) >= self._search.most_probes:
            msg = f"no rate was found in {len(self.probes)} probes"
            raise _VoidError(msg)
        load = Load(schedule=Schedule.steady(rate, seconds), patience=self._search.patience)
        trial = self._once(load, is_confirmation=is_confirmation)
        if trial.void and self._search.again_if_void:
            trial = self._once(load, is_confirmation=is_confirmation)
        status, reason = status_of(trial, self._search)
        if self.kept_up is not None and trial.void.startswith(LATE):
            self.unsent = rate
            return False
        if status is ProbeStatus.VOID:
            msg = f"at {rate:,.0f} events/s: {reason}"
            raise _VoidError(msg)
        if status is ProbeStatus.KEPT_UP:
            self.kept_up = trial
        return status is ProbeStatus.KEPT_UP

    def _once(self, load: Load, *, is_confirmation: bool) -> Trial:
        trial = self._bench.trial(load)
        status, reason = status_of(trial, self._search)
        probe = Probe(
            rate=load.schedule.phases[0].rate, status=status, reason=reason,
            is_confirmation=is_confirmation,
        )
        self.probes.append(probe)
        self._told(probe)
        return trial


def status_of(trial: Trial, search: Search) -> tuple[ProbeStatus, str]:
    """Say what a probe shows of its rate, and why."""
    if trial.trouble:
        return ProbeStatus.VOID, trial.trouble
    if trial.unsustained:
        return ProbeStatus.FELL_BEHIND, trial.unsustained
    behind = _growing(trial, search) or _backlog(trial, search) or _late(trial, search)
    if behind:
        return ProbeStatus.FELL_BEHIND, behind
    return ProbeStatus.KEPT_UP, ""


def _backlog(trial: Trial, search: Search) -> str:
    """Say how long after the load the last result left; empty if that was soon.

    A system that takes events and only computes at the end keeps its queue short. Where results are
    not known yet, the time until it was at rest says about the same.
    """
    seconds = trial.load.schedule.seconds
    if not len(trial.left):
        busy = trial.busy_seconds - seconds
        if busy <= search.patience.drain_seconds + _REST_SECONDS:
            return ""
        return f"it was at work for {busy:.1f} s after the load"
    after = float(trial.left.max()) - seconds
    if after <= search.patience.drain_seconds:
        return ""
    return f"the last result left {after:.1f} s after the load"


def _late(trial: Trial, search: Search) -> str:
    """Say that the p99 is above the bound; empty if it is not, or there is no bound."""
    if not search.p99_seconds:
        return ""
    rested = settled(trial, warm_up_seconds(trial.due, trial.latency))
    if not len(rested):
        return "no result left after the warm-up"
    p99 = percentile(rested, 0.99)
    if p99 <= search.p99_seconds:
        return ""
    return f"p99 {p99:.2f} s, above the bound of {search.p99_seconds:g} s"


def _growing(trial: Trial, search: Search) -> str:
    """Say by how much the queue surely grows in the second half; empty if it need not.

    Epochs make a queue rise and fall: a line through a half with fewer than five times what is
    acceptable, and so with few epochs, says nothing. Of a run that is so short the halves are
    compared, with room for a part of an epoch.
    """
    seconds, rate = trial.load.schedule.seconds, trial.load.schedule.phases[0].rate
    acceptable = search.patience.acceptable_seconds
    if seconds < 10 * acceptable:
        more = _second_half(trial) / rate
        room = max(search.precision / 2 * seconds / 2, acceptable / 4)
        return f"the queue has {more:.1f} s more in the second half" if more > room else ""
    half = (trial.queue_seconds >= seconds / 2) & (trial.queue_seconds <= seconds)
    if np.count_nonzero(half) < _LEAST_LOOKS:
        return ""
    found = slope_of(trial.queue_seconds[half], trial.queue_lengths[half].astype(np.float64))
    if found.slope.low <= rate * search.precision / 2:
        return ""
    return f"the queue grows by {found.slope.value:,.0f} events a second"


def _second_half(trial: Trial) -> float:
    """Give how much longer the queue is in the second half of a run, on average."""
    at, seconds = trial.queue_seconds, trial.load.schedule.seconds
    first, second = at < seconds / 2, (at >= seconds / 2) & (at <= seconds)
    if min(np.count_nonzero(first), np.count_nonzero(second)) < _LEAST_LOOKS:
        return 0.0
    return float(trial.queue_lengths[second].mean() - trial.queue_lengths[first].mean())


def untold(probe: Probe) -> None:
    """Hear of a probe, and keep it."""
    del probe


def find_rate(
    bench: Bench, search: Search, *, told: Callable[[Probe], None] = untold
) -> Sustainable:
    """Search the highest rate that is sustained.

    Args:
        bench: runs the probes.
        search: how.
        told: hears of every probe.
    """
    probing = _Probing(bench, search, told)
    rate, confirmation, void = 0.0, None, ""
    try:
        if search.ramp:
            first = probing.ramp(search.first_rate)
            search = replace(search, first_rate=first, is_near=True)
        low, high = _bracket(probing, search)
        if low:
            low, _ = _bisect(probing, search, low, high, search.probe_seconds)
            is_confirmed = search.confirm_seconds <= search.probe_seconds or probing.keeps_up(
                low, search.confirm_seconds, is_confirmation=True
            )
            if not is_confirmed:
                # Too short a probe had let it pass; from here on all are long.
                low, high = _step_down(probing, search, low)
                if low:
                    low, _ = _bisect(probing, search, low, high, search.confirm_seconds)
        if low:
            rate, confirmation = low, probing.kept_up
    except _VoidError as error:
        void = str(error)
    behind = [each.rate for each in probing.probes if each.status is ProbeStatus.FELL_BEHIND]
    return Sustainable(
        rate=rate, probes=tuple(probing.probes), void=void, confirmation=confirmation,
        is_least=rate < probing.unsent < min(behind, default=float("inf")), ramp=probing.ramped,
    )


def climb(
    bench: Bench, search: Search, told: Callable[[Probe], None] = untold
) -> Sustainable:
    """Go up from the first rate in steps of the precision; the rate is 0 if that is too high."""
    probing = _Probing(bench, search, told)
    rate, next_rate, void = 0.0, search.first_rate, ""
    try:
        while probing.keeps_up(next_rate, search.probe_seconds):
            rate, next_rate = next_rate, next_rate * (1 + search.precision)
    except _VoidError as error:
        void, rate = str(error), 0.0
    return Sustainable(
        rate=rate, probes=tuple(probing.probes), void=void, confirmation=probing.kept_up
    )


def _bracket(probing: _Probing, search: Search) -> tuple[float, float]:
    """Find a rate that is sustained and one that is not; the first is 0 if none is."""
    rate = search.first_rate
    near = (max(1 + search.precision, _NEAR_STEP),) if search.is_near else ()
    kept_up = probing.keeps_up(rate, search.probe_seconds)
    if kept_up or (search.is_cold and probing.keeps_up(rate, search.probe_seconds)):
        # An estimate that is far off was that of a system that had just been started; a second
        # ramp gave the same again, so the steps grow instead.
        for step in chain(near, near, repeat(2.0)):
            if not probing.keeps_up(rate * step, search.probe_seconds):
                return rate, rate * step
            rate *= step
    for step in chain(near, near, repeat(2.0)):
        lower = _below(rate, search, step)
        if not lower:
            return 0.0, rate
        if probing.keeps_up(lower, search.probe_seconds):
            return lower, rate
        rate = lower
    raise AssertionError  # the steps do not end


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


def _below(rate: float, search: Search, step: float) -> float:
    """A step below the rate; 0 where nobody would call it a rate any more.

    An estimate is not that far off: a system that falls behind there does so at any rate, as one
    whose epochs take longer than is acceptable.
    """
    least = search.first_rate / (_NEAR_LEAST if search.is_near else 1024)
    return rate / step if rate / step >= least else 0.0


def _bisect(
    probing: _Probing, search: Search, low: float, high: float, seconds: float
) -> tuple[float, float]:
    while high / low > 1 + search.precision:
        middle = sqrt(low * high)
        is_long = seconds > search.probe_seconds
        if probing.keeps_up(middle, seconds, is_confirmation=is_long):
            low = middle
        else:
            high = middle
    return low, high
