"""With which of some settings does a system sustain the highest rate under a bound on latency?

The first candidate's rate is searched; every other one is tried a step above the best rate so far,
and goes on upwards while it keeps up. So one that is no better costs one run. A candidate that
fails or answers wrong is left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import OptionError
from headrace.lab.experiments.sustainable import Probe, Search, Sustainable, climb, find_rate
from headrace.lab.record.trial import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate, and what came of it."""

    settings: Mapping[str, Any]
    rate: float  # the highest that was sustained; 0: none that was tried
    said: str  # why it went no higher, or why it was left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What was chosen."""

    settings: Mapping[str, Any]  # those of the first candidate if none sustained a rate
    rate: float
    tried: tuple[Tried, ...]


def tune(
    bench_with: Callable[[Mapping[str, Any]], Bench], candidates: Sequence[Mapping[str, Any]],
    search: Search, told: Callable[[Mapping[str, Any], Probe], None] = lambda _each, _probe: None,
) -> Tuned:
    """Choose among candidates.

    Args:
        bench_with: gives the bench of a system with some settings changed.
        candidates: the settings; the first are those without tuning, as a rule.
        search: how a rate is searched, with its bound on latency.
        told: hears of every probe.

    Raises:
        OptionError: there are no candidates.
    """
    if not candidates:
        msg = "there are no settings to choose from"
        raise OptionError(msg)
    tried: list[Tried] = []
    best = Tried(settings=candidates[0], rate=0.0, said="")
    for each in candidates:
        bench = bench_with(each)

        def hear(probe: Probe, each: Mapping[str, Any] = each) -> None:
            told(each, probe)

        if best.rate:
            above = replace(search, first_rate=best.rate * (1 + search.precision), ramp=False)
            found = climb(bench, above, hear)
        else:
            found = find_rate(bench, search, told=hear)
        tried.append(Tried(settings=each, rate=found.rate, said=_said(found)))
        if found.rate > best.rate:
            best = tried[-1]
    return Tuned(settings=best.settings, rate=best.rate, tried=tuple(tried))


def _said(found: Sustainable) -> str:
    if found.void:
        return found.void
    stops = [probe for probe in found.probes if probe.reason and probe.rate > found.rate]
    if not stops:
        return ""
    least = min(stops, key=lambda probe: probe.rate)
    return f"at {least.rate:,.0f} events/s: {least.reason}"
