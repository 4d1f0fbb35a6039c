"""Carries a spec out: experiment by experiment, the systems in turn, figures at the end.

Every system is asked every question. Systems take turns inside each question and repeat, so what
the machine does meanwhile falls on all alike. Decides what is measured in which order; how is the
experiments' own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

from headrace.errors import OptionError
from headrace.lab.benches import AbsentError, bench_of, candidates_of
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.costs import costs_of, measure_growth
from headrace.lab.experiments.guarantees import Seen, Witness, promises
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.latency import summed_up
from headrace.lab.experiments.recovery import measure_fault
from headrace.lab.experiments.scaling import measure_scaling
from headrace.lab.experiments.spike import SpikeLoad, measure_spike
from headrace.lab.experiments.sustainable import Probe, Search, Sustainable, find_rate
from headrace.lab.experiments.trial import Fault, Load, SeriesBench, Subject, Trial
from headrace.lab.experiments.tuning import tune
from headrace.lab.experiments.waterfall import causal_profile, waterfall
from headrace.lab.results.samples import Kept
from headrace.lab.results.summary import (
    Better,
    Figure,
    Guarantee,
    Shown,
    SystemRecord,
    TunedRecord,
)
from headrace.lab.searches import search_of, then_latency, tuning_search
from headrace.lab.spec import Spec, SustainableSpec, TuningSpec
from headrace.lab.statistics.intervals import Interval, of_repeats
from headrace.lab.statistics.samples import percentile

_HIGHER, _LOWER = Better.HIGHER, Better.LOWER
#: Of the rate that a system sustained of one question: where the search for the next one begins.
_OTHER_QUESTION = 1 / 8


class Who(NamedTuple):
    """A system and what it is asked."""

    system: str
    question: str

    def __str__(self) -> str:
        return f"{self.system} {self.question}"


class Measuring:
    """One run of a spec.

    Args:
        spec: what is to be measured.
        told: hears what is done, a line each.
    """

    def __init__(self, spec: Spec, told: Callable[[str], None] = lambda _text: None) -> None:
        self._spec = spec
        self._told = told
        self._subjects: dict[str, Subject] = {}
        self._benches: dict[Who, SeriesBench] = {}
        self._absent: dict[str, str] = {}
        self._engines: dict[str, str] = {}
        self._rates: dict[Who, float] = {}
        self._voids: dict[Who, str] = {}  # why it has no sustainable rate
        self._last: dict[str, float] = {}  # what a system sustained of the question before
        self._at_least: set[Who] = set()  # whose highest rate the data engines could not send
        self._with_search: dict[Who, Trial] = {}  # latencies that the search's own run has shown
        self._tuned: dict[Who, TunedRecord] = {}
        self._seen: list[Seen] = []
        self.figures: list[Figure] = []
        self.kept: list[Kept] = []

    def run(self) -> None:
        """Make all experiments of the spec."""
        for system in self._spec.systems:
            try:
                self._subjects[system.name] = bench_of(system)
            except AbsentError as absent:
                self._absent[system.name] = str(absent)
                self._told(f"{system.name} is absent: {absent}")
        for question in self._spec.questions:
            for name in self._subjects:
                who = Who(name, question)
                self._benches[who] = self._bench(who, {})
        try:
            for name, settings in self._spec.experiments.items():
                getattr(self, f"_{name}")(settings)
        finally:
            for subject in self._subjects.values():
                subject.stop()

    def _bench(self, who: Who, changes: Mapping[str, Any]) -> SeriesBench:
        bench = self._subjects[who.system].asked(who.question, changes)
        return Witness(bench, who.system, who.question, self._seen.append)

    def systems(self) -> tuple[SystemRecord, ...]:
        """Say who ran."""
        return tuple(
            SystemRecord(
                name=system.name, kind=system.kind, engine=self._engines.get(system.name, ""),
                absent=self._absent.get(system.name, ""), settings=system.settings,
                tuned=tuple(
                    tuned for who, tuned in self._tuned.items() if who.system == system.name
                ),
            )
            for system in self._spec.systems
        )

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Say what the run has shown of what the systems promise."""
        words = {True: Shown.YES, False: Shown.NO, None: Shown.OPEN}
        return tuple(
            Guarantee(
                system=name, name=promise.name, shown=words[promise.shown],
                evidence=promise.evidence,
            )
            for name in self._subjects
            for promise in promises(name, self._seen)
        )

    # --- the experiments

    def _tuning(self, settings: TuningSpec) -> None:
        search = tuning_search(settings)
        candidates = {system.name: candidates_of(system) for system in self._spec.systems}
        for who in self._benches:
            self._told(f"{who}: choosing among {len(candidates[who.system])} settings")
            found = tune(
                partial(self._bench, who), candidates[who.system], self._from(who, search),
                told=lambda each, probe, who=who: self._told(  # type: ignore[misc]
                    f"{who} {dict(each)}: {probe.rate:,.0f} events/s {probe.status.value} "
                    f"{probe.reason}"
                ),
            )
            self._benches[who] = self._bench(who, found.settings)
            self._tuned[who] = TunedRecord(
                question=who.question, chosen=found.settings, rate=found.rate,
                p99_seconds=settings.p99_seconds,
                tried=tuple(asdict(each) for each in found.tried),
            )

    def _sustainable(self, settings: SustainableSpec) -> None:
        rates: dict[Who, list[float]] = {name: [] for name in self._benches}
        try:
            for repeat in range(settings.repeats):
                for name, bench in self._benches.items():
                    search = self._search_of(name, settings)
                    found = self._searched(name, bench, search, in_series=settings.in_series)
                    self._note(name, found, rates[name], repeat)
        finally:  # of an interrupted run, what there is
            for name, values in rates.items():
                if values:
                    self._add_rate(name, values, settings.precision)

    def _search_of(self, who: Who, settings: SustainableSpec) -> Search:
        """Make the search of one system and question: tuning has found about where it ends."""
        search, tuned = self._from(who, search_of(settings)), self._tuned.get(who)
        if tuned is None or not tuned.rate:
            return search
        return replace(search, first_rate=tuned.rate, ramp=False, is_near=True)

    def _from(self, who: Who, search: Search) -> Search:
        """Let a search begin where the spec says that this system's do."""
        first = next(s.first_rate for s in self._spec.systems if s.name == who.system)
        first = max(first or search.first_rate, self._last.get(who.system, 0.0) * _OTHER_QUESTION)
        return replace(search, first_rate=first)

    def _searched(
        self, name: Who, bench: SeriesBench, search: Search, *, in_series: bool
    ) -> Sustainable:
        self._told(f"{name}: searching the highest rate")

        def told(probe: Probe) -> None:
            self._told(f"{name}: {probe.rate:,.0f} events/s {probe.status.value} {probe.reason}")

        if not in_series:
            return find_rate(bench, search, told=told)
        then = then_latency(self._spec, name.question)
        shown = find_rate_in_series(bench, search, told=told, then=then)
        if shown.further:
            self._with_search[name] = shown.further[0]
        return shown.found

    def _note(self, name: Who, found: Sustainable, rates: list[float], repeat: int) -> None:
        rates.append(found.rate)
        self._last[name.system] = found.rate
        if found.is_least:
            self._at_least.add(name)
        last = found.probes[-1].reason if found.probes else ""
        void = found.void or ("" if found.rate else f"no rate was sustained: {last}")
        self._voids[name] = self._voids.get(name) or void
        if found.confirmation is not None:
            self._keep(name, "sustainable", repeat, found.confirmation)

    def _add_rate(self, name: Who, values: list[float], precision: float) -> None:
        void = self._voids[name]
        interval = None if void else of_repeats(values)
        if interval is not None and len(values) == 1:
            # The search itself leaves so much open.
            high = float("inf") if name in self._at_least else interval.value * (1 + precision)
            interval = Interval(value=values[0], low=values[0], high=high, count=1)
        self._add(name, "sustainable", "rate", "events/s", _HIGHER, interval, values, void)
        self._rates[name] = 0.0 if void else sum(values) / len(values)

    def _latency(self, settings: Any) -> None:
        benches = self._asked(settings)
        trials: dict[Who, list[Trial]] = {name: [] for name in benches}
        whole = False
        try:
            for repeat in range(settings.repeats):
                for name, bench in benches.items():
                    rate = self._rate(name, settings)
                    if not rate:
                        continue
                    trial = self._with_search.get(name)
                    if trial is None:
                        self._told(f"{name}: measuring latency at {rate:,.0f} events/s")
                        trial = bench.trial(Load(schedule=Schedule.steady(rate, settings.seconds)))
                    said = trial.trouble or "right"
                    self._told(f"{name}: latency at {rate:,.0f} events/s, {said}")
                    trials[name].append(trial)
                    self._keep(name, "latency", repeat, trial)
            whole = True
        finally:  # of an interrupted run, what there is
            for name, made in trials.items():
                if made:
                    self._add_latency(name, self._rate(name, settings), made)
                elif whole:
                    void = self._without_rate(name)
                    self._add(name, "latency", "p99", "s", _LOWER, None, (), void)

    def _add_latency(self, name: Who, rate: float, made: list[Trial]) -> None:
        found = summed_up(rate, made)
        rested = [
            trial.latency[trial.due >= cut] for trial, cut in zip(made, found.cuts, strict=True)
        ]
        if found.void:
            self._add(name, "latency", "p99", "s", _LOWER, None, (), found.void)
        for share, interval in found.percentiles:
            repeats = [percentile(samples, share) for samples in rested]
            label = f"p{share * 100:g}"
            self._add(name, "latency", label, "s", _LOWER, interval, repeats, "")
        if not found.void:
            for stage in waterfall(made[0], found.cuts[0]):
                self._plain(name, "waterfall", stage.name, "s", stage.seconds, "")
        self._costs(name, made)

    def _costs(self, name: Who, trials: list[Trial]) -> None:
        found = [costs_of(trial) for trial in trials]
        void = next((cost.void for cost in found if cost.void), "")
        for label, unit, field in (
            ("cpu", "s per million events", "cpu_seconds_per_million"),
            ("cpu of the data engine", "s per million events", "engine_cpu_seconds_per_million"),
            ("peak memory", "bytes", "peak_bytes"),
            ("checkpoint", "bytes", "checkpoint_bytes"),
        ):
            values = [getattr(cost, field) for cost in found]
            known = [float(value) for value in values if value is not None]
            if known:
                interval = None if void else of_repeats(known)
                self._add(name, "cost", label, unit, _LOWER, interval, known, void)

    def _spike(self, settings: Any) -> None:
        for name, bench in self._asked(settings).items():
            rate = self._rate(name, settings)
            if not rate:
                void = self._without_rate(name)
                self._add(name, "spike", "recovery", "s", _LOWER, None, (), void)
                continue
            found = measure_spike(bench, SpikeLoad(
                rate=rate, times=settings.times, calm_seconds=settings.calm_seconds,
                spike_seconds=settings.spike_seconds, worse_at=settings.worse_at,
            ))
            self._told(f"{name}: spike, {'came back' if found.came_back else 'did NOT come back'}")
            self._keep(name, "spike", 0, found.trial)
            never = "the queue never got short again" if found.recovery_seconds is None else ""
            void = found.void
            self._plain(name, "spike", "longest queue", "events", found.longest_queue, void)
            self._plain(name, "spike", "recovery", "s", found.recovery_seconds, void or never)
            for label, interval in (("p99 before", found.before), ("p99 after", found.after)):
                self._add(name, "spike", label, "s", _LOWER, interval, (), void or never)
            self._plain(name, "spike", "came back", "1 or 0", float(found.came_back), void, _HIGHER)

    def _fault(self, settings: Any) -> None:
        for name, bench in self._asked(settings).items():
            rate = self._rate(name, settings)
            if not rate:
                void = self._without_rate(name)
                self._add(name, "fault", "recovery", "s", _LOWER, None, (), void)
                continue
            fault = Fault(kind=settings.kind, at_seconds=settings.at_seconds)
            try:
                found = measure_fault(bench, rate=rate, seconds=settings.seconds, fault=fault)
            except OptionError as refused:
                self._add(name, "fault", "recovery", "s", _LOWER, None, (), str(refused))
                continue
            self._told(f"{name}: {settings.kind}, {found.void or 'right'}")
            self._keep(name, "fault", 0, found.trial)
            never = "results never got as young again" if found.recovery_seconds is None else ""
            self._plain(
                name, "fault", "recovery", "s", found.recovery_seconds, found.void or never
            )

    def _scaling(self, settings: Any) -> None:
        search = search_of(self._spec.experiments["sustainable"])
        for name, bench in self._asked(settings).items():
            found = measure_scaling(bench, search, list(settings.cores))
            for cores, point in found.points:
                void = point.void or ("" if point.rate else "no rate was sustained")
                label = f"rate on {cores} cores"
                self._plain(name, "scaling", label, "events/s", point.rate, void, _HIGHER)
            more = found.predicted(settings.cores[-1] * 2)
            if more is not None:
                label = f"predicted on {settings.cores[-1] * 2} cores"
                self._plain(name, "scaling", label, "events/s", more, "", _HIGHER)
            self._told(f"{name}: scaling done")

    def _growth(self, settings: Any) -> None:
        for name, bench in self._asked(settings).items():
            rate = self._rate(name, settings)
            if not rate:
                void = self._without_rate(name)
                self._add(name, "growth", "state", "bytes/s", _LOWER, None, (), void)
                continue
            found = measure_growth(bench, rate=rate, seconds=settings.seconds)
            self._told(f"{name}: growth of the state, {found.void or 'right'}")
            self._keep(name, "growth", 0, found.trial)
            slope = found.bytes_per_second
            self._add(
                name, "growth", "state", "bytes/s", _LOWER,
                None if slope is None else slope.slope, (), found.void,
            )

    def _causal(self, settings: Any) -> None:
        search = search_of(self._spec.experiments["sustainable"])
        for name, bench in self._benches.items():
            try:
                profile = causal_profile(bench, search, settings.steps, times=settings.times)
            except OptionError as refused:
                self._add(name, "causal", "gain", "share", _HIGHER, None, (), str(refused))
                continue
            for found in profile:
                label = f"gain of {found.step} {found.times:g}x as fast"
                self._plain(name, "causal", label, "share", found.gain, found.void, _HIGHER)
            self._told(f"{name}: causal profile done")

    # --- what they share

    def _asked(self, settings: Any) -> dict[Who, SeriesBench]:
        """Give the benches of the questions that an experiment is about."""
        only = settings.questions or self._spec.questions
        return {who: bench for who, bench in self._benches.items() if who.question in only}

    def _rate(self, name: Who, settings: Any) -> float:
        if settings.rate:
            return float(settings.rate)
        return self._rates.get(name, 0.0) * float(settings.share)

    def _without_rate(self, name: Who) -> str:
        return f"there is no sustainable rate: {self._voids.get(name) or 'none was sustained'}"

    def _keep(self, name: Who, experiment: str, repeat: int, trial: Trial) -> None:
        self._engines[name.system] = trial.engine
        self.kept.append(Kept(
            system=name.system, question=name.question, experiment=experiment, repeat=repeat,
            trial=trial,
        ))

    def _plain(
        self, name: Who, experiment: str, label: str, unit: str, value: float | None, void: str,
        better: Better = _LOWER,
    ) -> None:
        interval = None if value is None else of_repeats([float(value)])
        self._add(name, experiment, label, unit, better, interval, (), void)

    def _add(
        self, name: Who, experiment: str, label: str, unit: str, better: Better,
        interval: Interval | None, repeats: Any, void: str,
    ) -> None:
        counted = None if void else interval
        self.figures.append(Figure(
            system=name.system, question=name.question, experiment=experiment, name=label,
            unit=unit, better=better,
            value=None if counted is None else counted.value,
            low=None if counted is None else counted.low,
            high=None if counted is None else counted.high,
            repeats=() if void else tuple(float(value) for value in repeats), void=void,
        ))
