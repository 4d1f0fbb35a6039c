"""Makes the searches that a spec asks for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.lab.experiments.sustainable import Search
from headrace.lab.experiments.trial import Patience
from headrace.lab.spec import SustainableSpec, TuningSpec


def search_of(settings: SustainableSpec) -> Search:
    """Make the search that a spec asks for."""
    told = asdict(settings)
    told.pop("repeats")
    return Search(patience=_patience(told), **told)


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
