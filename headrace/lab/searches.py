"""Makes the searches that a spec asks for, and what is measured in the run of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.in_series import Then, find_rate_in_series
from headrace.lab.experiments.sustainable import Probe, Search, Sustainable, find_rate
from headrace.lab.record.trial import Bench, Load, Patience, SeriesBench
from headrace.lab.spec import LatencySpec, Spec, SustainableSpec, TuningSpec


def search_of(settings: SustainableSpec) -> Search:
    """Make the search that a spec asks for."""
    told = asdict(settings)
    for name in ("repeats", "in_series", "loops_per_second"):
        told.pop(name)
    return Search(patience=_patience(told), **told)


def speed_of(spec: Spec, loops_per_second: float) -> float:
    """Say how fast this machine is, of the one that a spec's first rates are from.

    Args:
        spec: of the run.
        loops_per_second: of the interpreter on this machine; 0: nobody has looked.
    """
    settings: SustainableSpec | None = spec.experiments.get("sustainable")
    told = 0.0 if settings is None else settings.loops_per_second
    return loops_per_second / told if told and loops_per_second else 1.0


def searching(
    search: Search, probed: Callable[[Iterable[Probe]], None], *, in_series: bool, is_near: bool
) -> Callable[[SeriesBench, float | None], Sustainable]:
    """Give what searches the rate of one bench after the other.

    Args:
        search: how; where it begins too, unless another search has said where.
        probed: is handed what each search has tried.
        in_series: all probes of a search in one run of the system.
        is_near: what another search says is about where this one ends.
    """
    def searched(bench: SeriesBench, first: float | None) -> Sustainable:
        own = search if first is None else replace(
            search, first_rate=first, ramp=False, is_near=is_near, is_cold=False
        )
        found = find_rate_in_series(bench, own).found if in_series else find_rate(bench, own)
        probed(found.probes)
        return found

    return searched


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
    shares, seconds = shares_of(latency, question), latency.seconds

    def then(running: Bench, rate: float) -> None:
        for share in shares:
            running.trial(Load(schedule=Schedule.steady(rate * share, seconds)))

    return then


def shares_of(latency: LatencySpec, question: str) -> tuple[float, ...]:
    """Give the shares of the rate at which latency is measured, each once.

    The first is the one that figures are told of, and others come from the lowest to the highest.

    >>> latency = LatencySpec(share=0.5, shares=(0.25, 0.5, 0.9), shares_questions=("count",))
    >>> shares_of(latency, "count"), shares_of(latency, "state")
    ((0.5, 0.25, 0.9), (0.5,))
    """
    if not has_shares(latency, question):
        return (latency.share,)
    return (latency.share, *sorted(set(latency.shares) - {latency.share}))


def has_shares(latency: LatencySpec, question: str) -> bool:
    """Say whether latency against rate is asked for."""
    return bool(latency.shares) and question in (latency.shares_questions or (question,))


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
