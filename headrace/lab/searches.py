"""Makes the searches that a spec asks for, and what is measured in the run of one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.in_series import Then
from headrace.lab.experiments.sustainable import Search
from headrace.lab.experiments.trial import Bench, Load, Patience
from headrace.lab.spec import LatencySpec, Spec, SustainableSpec, TuningSpec


def search_of(settings: SustainableSpec) -> Search:
    """Make the search that a spec asks for."""
    told = asdict(settings)
    for name in ("repeats", "in_series"):
        told.pop(name)
    return Search(patience=_patience(told), **told)


def then_latency(spec: Spec, question: str) -> Then:
    """Let a search's run go on with the latency, if that is asked for once and has no rate."""
    latency: LatencySpec | None = spec.experiments.get("latency")
    is_once = (
        latency is not None and not latency.rate
        and latency.repeats == spec.experiments["sustainable"].repeats == 1
        and question in (latency.questions or spec.questions)
    )
    if latency is None or not is_once:
        return lambda _running, _rate: None
    share, seconds = latency.share, latency.seconds

    def then(running: Bench, rate: float) -> None:
        running.trial(Load(schedule=Schedule.steady(rate * share, seconds)))

    return then


def tuning_search(settings: TuningSpec) -> Search:
    """Make the search with which tuning tries settings: a ramp, and no longer confirmation."""
    told = asdict(settings)
    return Search(
        patience=_patience(told), ramp=True, confirm_seconds=settings.probe_seconds, **told
    )


def _patience(told: dict[str, Any]) -> Patience:
    """Take what is a search's patience out of its settings."""
    names = ("acceptable_seconds", "limit_seconds", "drain_seconds")
    return Patience(**{name: told.pop(name) for name in names})
