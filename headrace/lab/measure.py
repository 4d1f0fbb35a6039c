"""Carries a spec out: experiment by experiment, the systems in turn, figures at the end.

Every system is asked every question. Systems take turns inside each question and repeat, so what
the machine does meanwhile falls on all alike. Decides what is measured in which order; how is the
experiments' own affair.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any

from headrace.lab.benches import AbsentError, bench_of, candidates_of
from headrace.lab.causal_figures import CAUSAL, causal_figures
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.guarantees import Seen, Witness, promises
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.sustainable import Probe, Search, Sustainable, find_rate
from headrace.lab.experiments.tuning import tune
from headrace.lab.figures import Figures
from headrace.lab.latency_figures import cost_figures, latency_figures, share_figures
from headrace.lab.load_figures import RATED
from headrace.lab.notes import Notes
from headrace.lab.record.trial import (
    Load,
    PacedBench,
    RefusedError,
    SeriesBench,
    Subject,
    Trial,
)
from headrace.lab.report.compared import MEMORY, SHARED_MEMORY
from headrace.lab.results.summary import (
    REFUSED,
    Better,
    Guarantee,
    Shown,
    SystemRecord,
    TunedRecord,
)
from headrace.lab.scaling_figures import scaling_figures
from headrace.lab.searches import (
    has_shares,
    search_of,
    shares_of,
    speed_of,
    then_latency,
    tuning_search,
)
from headrace.lab.spec import (
    IN_PROCESS,
    ON_SPARK,
    CausalSpec,
    LatencySpec,
    ScalingSpec,
    Spec,
    SustainableSpec,
    SweepSpec,
    TuningSpec,
)
from headrace.lab.statistics.intervals import Interval, of_repeats
from headrace.lab.sweep_figures import sweep_figures
from headrace.lab.who import Who

_HIGHER, _LOWER = Better.HIGHER, Better.LOWER
#: Of the rate that a system sustained of one question: where the search for the next one begins.
_OTHER_QUESTION = 1 / 8


class Measuring:
    """One run of a spec.

    Args:
        spec: what is to be measured.
        told: hears what is done, a line each.
        loops_per_second: of the interpreter on this machine; 0: nobody has looked.
    """

    def __init__(
        self, spec: Spec, told: Callable[[str], None] = lambda _text: None,
        loops_per_second: float = 0.0,
    ) -> None:
        self._spec = spec
        self._told = told
        self._speed = speed_of(spec, loops_per_second)
        self._subjects: dict[str, Subject] = {}
        self._benches: dict[Who, PacedBench] = {}
        self._absent: dict[str, str] = {}
        self._notes = Notes()
        self._add, self._plain, self._keep = self._notes.add, self._notes.plain, self._notes.keep
        self._rates: dict[Who, float] = {}
        self._voids: dict[Who, str] = {}  # why it has no sustainable rate
        self._last: dict[str, float] = {}  # what a system sustained of the question before
        self._at_least: set[Who] = set()  # whose highest rate the data engines could not send
        # Latencies that the search's own run has shown.
        self._with_search: dict[Who, tuple[Trial, ...]] = {}
        self._tuned: dict[Who, TunedRecord] = {}
        self._seen: list[Seen] = []
        self.figures, self.kept = self._notes.figures, self._notes.kept
        self.probes = self._notes.probes

    def run(self) -> None:
        """Make all experiments of the spec."""
        for system in self._spec.systems:
            try:
                self._subjects[system.name] = bench_of(system)
            except AbsentError as absent:
                self._absent[system.name] = str(absent)
                self._told(f"{system.name} is absent: {absent}")
        for question, name in product(self._spec.questions, self._subjects):
            self._ask(Who(name, question))
        try:
            for name, settings in self._spec.experiments.items():
                if name in RATED:
                    self._under_load(name, settings)
                else:
                    getattr(self, f"_{name}")(settings)
        finally:
            for subject in self._subjects.values():
                subject.stop()

    def _ask(self, who: Who) -> None:
        try:
            self._benches[who] = self._bench(who, {})
        except RefusedError as error:
            why = f"{REFUSED}{error}"
            self._told(f"{who} is {why}")
            self._add(who, "sustainable", "rate", "events/s", _HIGHER, None, (), why)

    def _bench(self, who: Who, changes: Mapping[str, Any]) -> PacedBench:
        bench = self._subjects[who.system].asked(who.question, changes)
        return Witness(bench, who.system, who.question, self._seen.append)

    def systems(self) -> tuple[SystemRecord, ...]:
        """Say who ran."""
        return tuple(
            SystemRecord(
                name=system.name, kind=system.kind, engine=self._notes.engines.get(system.name, ""),
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
                told=partial(self._tried, who),
            )
            self._benches[who] = self._bench(who, found.settings)
            self._tuned[who] = TunedRecord(
                question=who.question, chosen=found.settings, rate=found.rate,
                p99_seconds=settings.p99_seconds,
                tried=tuple(asdict(each) for each in found.tried),
            )

    def _tried(self, who: Who, settings: Mapping[str, Any], probe: Probe) -> None:
        self._told(
            f"{who} {dict(settings)}: {probe.rate:,.0f} events/s {probe.status.value} "
            f"{probe.reason}"
        )
        self._notes.probed(who, "tuning", 0, [probe])

    def _sustainable(self, settings: SustainableSpec) -> None:
        rates: dict[Who, list[float]] = {name: [] for name in self._benches}
        try:
            for repeat in range(settings.repeats):
                for name, bench in self._benches.items():
                    search = self._search_of(name, settings)
                    try:
                        found = self._searched(name, bench, search, in_series=settings.in_series)
                    except Exception as error:  # noqa: BLE001 (the other questions go on)
                        void = self._failed(name, error)
                        found = Sustainable(rate=0.0, probes=(), void=void, confirmation=None)
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
        system = next(s for s in self._spec.systems if s.name == who.system)
        near = system.near.get(who.question)
        if near:
            return replace(
                search, first_rate=near * self._speed, ramp=False, is_near=True, is_cold=True
            )
        other = self._last.get(who.system, 0.0) * _OTHER_QUESTION
        first = (system.first_rate or search.first_rate) * self._speed
        return replace(search, first_rate=max(first, other))

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
        self._with_search[name] = shown.further
        return shown.found

    def _failed(self, who: Who, error: Exception) -> str:
        """Say what the lab could not do. That voids a figure; those of an hour before it stay."""
        told = "".join(traceback.format_exception(error))
        self._told(f"{who}: the lab failed\n{told}")
        return f"the lab failed: {type(error).__name__}: {error}"

    def _note(self, name: Who, found: Sustainable, rates: list[float], repeat: int) -> None:
        rates.append(found.rate)
        self._last[name.system] = found.rate
        if found.is_least:
            self._at_least.add(name)
        last = found.probes[-1].reason if found.probes else ""
        void = found.void or ("" if found.rate else f"no rate was sustained: {last}")
        self._voids[name] = self._voids.get(name) or void
        self._notes.probed(name, "sustainable", repeat, found.probes)
        if found.ramp is not None:
            self._notes.keep_queue(name, "ramp", repeat, found.ramp)
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

    def _latency(self, settings: LatencySpec) -> None:
        benches = self._asked(settings)
        trials: dict[Who, list[Trial]] = {name: [] for name in benches}
        whole = False
        try:
            for repeat in range(settings.repeats):
                for name in benches:
                    rate = self._rate(name, settings)
                    if rate:
                        trials[name].append(self._aged(name, settings, 0, rate))
                        self._keep(name, "latency", repeat, trials[name][-1])
            for name in benches:
                self._by_rate(name, settings, trials[name])
            whole = True
        finally:  # of an interrupted run, what there is
            for name, made in trials.items():
                if made:
                    latency_figures(self._notes, name, self._rate(name, settings), made)
                    cost_figures(self._notes, name, made, self._memory_of(name))
                elif whole:
                    void = self._without_rate(name)
                    self._add(name, "latency", "p99", "s", _LOWER, None, (), void)

    def _aged(self, name: Who, settings: LatencySpec, place: int, rate: float) -> Trial:
        """Give the run of one load of the latency; that of the search, if it had one."""
        shown = self._with_search.get(name, ())
        if place < len(shown):
            trial = shown[place]
        else:
            self._told(f"{name}: measuring latency at {rate:,.0f} events/s")
            load = Load(schedule=Schedule.steady(rate, settings.seconds))
            trial = self._benches[name].trial(load)
        self._told(f"{name}: latency at {rate:,.0f} events/s, {trial.trouble or 'right'}")
        return trial

    def _by_rate(self, name: Who, settings: LatencySpec, made: Sequence[Trial]) -> None:
        """Measure the ages of results at further shares of the rate."""
        asked = bool(made) and has_shares(settings, name.question)
        for place, share in enumerate(shares_of(settings, name.question) if asked else ()):
            rate = self._rates[name] * share
            trial = made[0]
            if place:
                trial = self._aged(name, settings, place, rate)
                self._notes.keep_queue(name, f"latency at {share:.0%}", 0, trial)
            share_figures(self._notes, name, share, rate, trial)

    def _memory_of(self, name: Who) -> str:
        """Say what the figure of a system's memory is called; empty: it can have none."""
        kinds = {s.name: s.kind for s in self._spec.systems if s.name in self._subjects}
        kind, on_spark = kinds[name.system], [k for k in kinds.values() if k in ON_SPARK]
        if kind in IN_PROCESS:
            return ""
        shares = kind in ON_SPARK and len(on_spark) > 1
        return SHARED_MEMORY.name if shares else MEMORY.name

    def _under_load(self, name: str, settings: Any) -> None:
        """Make an experiment that has a rate."""
        make, label, unit = RATED[name]
        for who, bench in self._asked(settings).items():
            rate = self._rate(who, settings)
            figures = self._figures(who, name)
            if not rate:
                figures.plain(label, unit, None, self._without_rate(who))
                continue
            try:
                make(bench, settings, rate, figures)
            except Exception as error:  # noqa: BLE001 (the other questions go on)
                figures.plain(label, unit, None, self._failed(who, error))

    def _scaling(self, settings: ScalingSpec) -> None:
        told = self._spec.experiments["sustainable"]
        for who in self._asked(settings):
            scaling_figures(
                partial(self._changed, who), settings, self._from(who, search_of(told)),
                self._figures(who, "scaling"), in_series=told.in_series,
            )

    def _sweep(self, settings: SweepSpec) -> None:
        kinds = {system.name: system.kind for system in self._spec.systems}
        for who in self._asked(settings):
            rate, figures = self._rate(who, settings), self._figures(who, "sweep")
            if rate:
                sweep_figures(
                    partial(self._changed, who), kinds[who.system], settings, rate, figures
                )
            else:
                figures.plain("p99", "s", None, self._without_rate(who))

    def _changed(self, who: Who, changes: Mapping[str, Any]) -> PacedBench:
        """Give the bench with the settings that were chosen for it, and these."""
        tuned = self._tuned.get(who)
        return self._bench(who, {**(tuned.chosen if tuned else {}), **changes})

    def _causal(self, settings: CausalSpec) -> None:
        told = self._spec.experiments["sustainable"]
        for who, bench in self._asked(settings).items():
            causal_figures(
                bench, settings, self._from(who, search_of(told)), self._figures(who, CAUSAL),
                in_series=told.in_series,
            )

    # --- what they share

    def _asked(self, settings: Any) -> dict[Who, PacedBench]:
        """Give the benches of the questions that an experiment is about."""
        only = settings.questions or self._spec.questions
        return {who: bench for who, bench in self._benches.items() if who.question in only}

    def _rate(self, name: Who, settings: Any) -> float:
        if settings.rate:
            return float(settings.rate)
        return self._rates.get(name, 0.0) * float(settings.share)

    def _without_rate(self, name: Who) -> str:
        return f"there is no sustainable rate: {self._voids.get(name) or 'none was sustained'}"

    def _figures(self, who: Who, experiment: str) -> Figures:
        return Figures(self._notes, who, experiment, self._told)
