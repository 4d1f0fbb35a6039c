"""Makes the figures of latency runs: ages of results, where they come from, what the runs cost."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lab.experiments.costs import costs_of
from headrace.lab.experiments.latency import settled, summed_up
from headrace.lab.experiments.waterfall import waterfall
from headrace.lab.notes import Notes
from headrace.lab.record.trial import Trial
from headrace.lab.report.compared import BY_RATE
from headrace.lab.results.summary import Better
from headrace.lab.statistics.intervals import of_repeats
from headrace.lab.statistics.samples import percentile
from headrace.lab.who import Who

_LOWER = Better.LOWER
#: The percentiles of these.
_OF_SHARES = (0.5, 0.99)


def latency_figures(notes: Notes, who: Who, rate: float, made: Sequence[Trial]) -> None:
    """Write down how old results were in some runs at one rate."""
    found = summed_up(rate, made)
    rested = [settled(trial, cut) for trial, cut in zip(made, found.cuts, strict=True)]
    if found.void:
        notes.add(who, "latency", "p99", "s", _LOWER, None, (), found.void)
    for share, interval in found.percentiles:
        repeats = [percentile(samples, share) for samples in rested]
        notes.add(who, "latency", f"p{share * 100:g}", "s", _LOWER, interval, repeats, "")
    if not found.void:
        for stage in waterfall(made[0], found.cuts[0]):
            notes.plain(who, "waterfall", stage.name, "s", stage.seconds, "")


def share_figures(notes: Notes, who: Who, share: float, rate: float, trial: Trial) -> None:
    """Write down how old results were at a share of the sustainable rate."""
    found = summed_up(rate, [trial])
    at = f"at {share:.0%}"
    notes.plain(who, BY_RATE, f"rate {at}", "events/s", rate, found.void, Better.HIGHER)
    for each in _OF_SHARES:
        interval = None if found.void else found.at(each)
        notes.add(who, BY_RATE, f"p{each * 100:g} {at}", "s", _LOWER, interval, (), found.void)


def cost_figures(notes: Notes, who: Who, trials: Sequence[Trial], memory: str) -> None:
    """Write down what runs used.

    Args:
        notes: where.
        who: ran.
        trials: the runs.
        memory: what the figure of memory is called; empty: there is none.
    """
    found = [costs_of(trial) for trial in trials]
    void = next((cost.void for cost in found if cost.void), "")
    for label, unit, field in (
        ("cpu", "s per million events", "cpu_seconds_per_million"),
        ("cpu of the data engine", "s per million events", "engine_cpu_seconds_per_million"),
        (memory, "bytes", "peak_bytes"),
        ("checkpoint", "bytes", "checkpoint_bytes"),
    ):
        values = [getattr(cost, field) for cost in found]
        known = [float(value) for value in values if value is not None]
        if known and label:
            interval = None if void else of_repeats(known)
            notes.add(who, "cost", label, unit, _LOWER, interval, known, void)
