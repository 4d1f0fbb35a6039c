"""Makes the experiments that put a system under one load at a known rate, and gives figures.

A spike, congestion, a fault, growth of the state: each takes a bench, what the spec says of it, and
the rate; the figures go where the caller collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.lab.experiments.congestion import CongestedLoad, measure_congestion
from headrace.lab.experiments.costs import measure_growth
from headrace.lab.experiments.recovery import measure_fault
from headrace.lab.experiments.spike import SpikeLoad, measure_spike
from headrace.lab.figures import Figures
from headrace.lab.record.trial import Bench, Fault
from headrace.lab.results.summary import REFUSED, Better
from headrace.lab.spec import CongestionSpec, FaultSpec, GrowthSpec, SpikeSpec

_NEVER_SHORT = "the queue never got short again"
_NEVER_YOUNG = "results never got as young again"
#: The fault whose figures have no other name.
_FIRST = "kill-worker"
#: Faults that are not over when they have been done.
_LASTING = ("slow-disk",)


def spike_figures(bench: Bench, settings: SpikeSpec, rate: float, figures: Figures) -> None:
    """Put a system under a spike."""
    found = measure_spike(bench, SpikeLoad(
        rate=rate, times=settings.times, calm_seconds=settings.calm_seconds,
        spike_seconds=settings.spike_seconds, worse_at=settings.worse_at,
    ))
    figures.told(f"spike, {'came back' if found.came_back else 'did NOT come back'}")
    figures.keep(found.trial)
    void = found.void
    never = _NEVER_SHORT if found.recovery_seconds is None else ""
    figures.plain("longest queue", "events", found.longest_queue, void)
    figures.plain("recovery", "s", found.recovery_seconds, void or never)
    for label, interval in (("p99 before", found.before), ("p99 after", found.after)):
        figures.add(label, "s", interval, void or never)
    figures.plain("came back", "1 or 0", float(found.came_back), void, Better.HIGHER)


def congestion_figures(
    bench: Bench, settings: CongestionSpec, rate: float, figures: Figures
) -> None:
    """Send more than a system sustains for a while, then less."""
    found = measure_congestion(bench, CongestedLoad(
        rate=rate, times=settings.times, below=settings.below,
        calm_seconds=settings.calm_seconds, over_seconds=settings.over_seconds,
        after_seconds=settings.after_seconds,
    ))
    figures.told(f"congestion, {found.void or 'right'}")
    figures.keep(found.trial)
    void = found.void
    figures.plain("longest queue", "events", found.longest_queue, void)
    for label, seconds, never in (
        ("queue worked off", found.queue_seconds, _NEVER_SHORT),
        ("results young again", found.young_seconds, _NEVER_YOUNG),
    ):
        figures.plain(label, "s", seconds, void or ("" if seconds is not None else never))
    figures.plain("late", "share of results", found.late_share, void)
    # What is lost is what was asked: it voids the other figures, not these.
    for label, rows in (("lost", found.lost_rows), ("doubled", found.doubled_rows)):
        figures.plain(label, "rows", rows, found.trial.void)


def fault_figures(bench: Bench, settings: FaultSpec, rate: float, figures: Figures) -> None:
    """Do a system harm."""
    of_kind = "" if settings.kind == _FIRST else f", {settings.kind}"
    lasts = settings.lasts_seconds if settings.kind in _LASTING else 0.0
    fault = Fault(kind=settings.kind, at_seconds=settings.at_seconds, lasts_seconds=lasts)
    try:
        found = measure_fault(bench, rate=rate, seconds=settings.seconds, fault=fault)
    except OptionError as refused:
        figures.plain(f"recovery{of_kind}", "s", None, f"{REFUSED}{refused}")
        return
    figures.told(f"{settings.kind}, {found.void or 'right'}")
    figures.keep(found.trial)
    never = _NEVER_YOUNG if found.recovery_seconds is None else ""
    figures.plain(f"recovery{of_kind}", "s", found.recovery_seconds, found.void or never)


def growth_figures(bench: Bench, settings: GrowthSpec, rate: float, figures: Figures) -> None:
    """See whether what a system keeps grows at a steady rate."""
    found = measure_growth(bench, rate=rate, seconds=settings.seconds)
    figures.told(f"growth of the state, {found.void or 'right'}")
    figures.keep(found.trial)
    known = {"state": found.state, "checkpoint": found.checkpoint}
    for label, slope in known.items():
        if slope is not None and not found.void:
            figures.add(label, "bytes/s", slope.slope)
    if found.void:
        figures.add("state", "bytes/s", None, found.void)


#: Experiment -> what makes it, and the figure that says why there is none without a rate.
RATED: Mapping[str, tuple[Callable[[Bench, Any, float, Figures], None], str, str]] = {
    "spike": (spike_figures, "recovery", "s"),
    "congestion": (congestion_figures, "queue worked off", "s"),
    "fault": (fault_figures, "recovery", "s"),
    "growth": (growth_figures, "state", "bytes/s"),
}
