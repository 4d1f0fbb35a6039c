"""What is the highest rate, searched in one run of the system, and what else does that run show?

The search decides by the queue alone while the run goes on: results are known when it is over. Then
every probe is judged anew, with its rows. One row lost or doubled in any of them voids the figure.
A rate whose results left too late had not kept up after all, and one that was thought too high may
have: the search then goes on from there, with a run for each probe. What is asked for after the
search, such as a latency at a share of the rate, is part of the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.lab.experiments.sustainable import (
    Probe,
    ProbeStatus,
    Search,
    Sustainable,
    find_rate,
    status_of,
    untold,
)
from headrace.lab.record.trial import Bench, Load, SeriesBench, Trial, one_by_one

#: Asks for further trials, at the rate that the search has found.
Then = Callable[[Bench, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InSeries:
    """What a run has shown."""

    found: Sustainable
    further: tuple[Trial, ...] = ()  # those that were asked for after the search


def find_rate_in_series(
    bench: SeriesBench, search: Search, *, told: Callable[[Probe], None] = untold,
    then: Then = lambda _bench, _rate: None,
) -> InSeries:
    """Search the highest rate that is sustained, in one run if all goes well.

    Args:
        bench: runs the probes.
        search: how. A latency cannot be seen while a run goes on, so where there is a bound on it
            each probe has a run of its own.
        told: hears of every probe.
        then: asks for more, once a rate is found.
    """
    once = _Once(search, told, then)
    if search.p99_seconds:
        return once.judged(one_by_one(bench, once.work))
    whole = once.judged(bench.series(once.work, search.first_rate))
    first = once.mistaken(whole.found)
    if whole.found.void or not first:
        return whole
    near = replace(search, first_rate=first, ramp=False, is_near=True, is_cold=False)
    again = _Once(near, told, then)
    below = again.judged(one_by_one(bench, again.work))
    probes = whole.found.probes + below.found.probes
    return replace(below, found=replace(below.found, probes=probes, ramp=whole.found.ramp))


class _Once:
    """One search, while its trials are made and when their rows are known."""

    def __init__(self, search: Search, told: Callable[[Probe], None], then: Then) -> None:
        self._search, self._told, self._then = search, told, then
        self._asked: list[Trial] = []  # as they were when the work went on
        self._found: Sustainable | None = None  # by what was known then; None: it did not end

    def work(self, bench: Bench) -> None:
        """Search, and ask for what comes after it."""
        noting = _Noting(bench, self._asked)
        found = find_rate(noting, self._search, told=self._told)
        if found.rate:
            self._then(noting, found.rate)
        self._found = found

    def mistaken(self, found: Sustainable) -> float:
        """Give the rate from which to search again, now that rows are known; 0: no need."""
        if self._found is None:
            return 0.0
        assumed = self._found.rate
        # A short probe that kept up where the longer one did not is no mistake.
        best = max((
            now.rate for then, now in zip(self._found.probes, found.probes, strict=True)
            if then.status is ProbeStatus.FELL_BEHIND and now.status is ProbeStatus.KEPT_UP
        ), default=0.0)
        if best > assumed:
            return best
        if assumed and not found.rate:
            self._told(found.probes[self._place])
            return assumed / (1 + self._search.precision)
        return 0.0

    @property
    def _place(self) -> int:
        """The place of the probe that had the rate and kept up."""
        assert self._found is not None
        kept = self._found.confirmation
        return next(place for place, trial in enumerate(self._asked) if trial is kept)

    def judged(self, trials: tuple[Trial, ...]) -> InSeries:
        """Give what was found, now that the rows are known."""
        if self._found is None:
            void = next((trial.trouble for trial in trials if trial.trouble), "")
            void = void or "the system failed: it ended before the search did"
            return InSeries(found=Sustainable(rate=0.0, probes=(), void=void, confirmation=None))
        found, count = self._found, len(self._found.probes)
        probes = tuple(map(self._anew, found.probes, trials))
        # What was in trouble at once the search has seen, and made again.
        wrong = next((
            f"at {probe.rate:,.0f} events/s: {trial.trouble}"
            for probe, trial, before in zip(probes, trials, self._asked, strict=False)
            if trial.trouble and not before.trouble
        ), "")
        void = found.void or wrong
        found = replace(found, probes=probes, void=void)
        kept_up = found.rate and probes[self._place].status is ProbeStatus.KEPT_UP
        if void or not kept_up:
            return InSeries(found=replace(found, rate=0.0, confirmation=None))
        found = replace(found, confirmation=trials[self._place])
        return InSeries(found=found, further=trials[count:])

    def _anew(self, probe: Probe, trial: Trial) -> Probe:
        if probe.status is ProbeStatus.ESTIMATED and not trial.trouble:
            return probe
        status, reason = status_of(trial, self._search)
        return replace(probe, status=status, reason=reason)


class _Noting:
    """A bench whose trials are kept."""

    def __init__(self, bench: Bench, kept: list[Trial]) -> None:
        self._bench, self._kept = bench, kept

    @property
    def name(self) -> str:
        """The system's name."""
        return self._bench.name

    def trial(self, load: Load) -> Trial:
        """Run once."""
        self._kept.append(self._bench.trial(load))
        return self._kept[-1]
