"""Windowed aggregation and windowed join of keyed values, by event time or by arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lab.workloads.windowed.generator import WindowedGenerator as generator
from headrace.lab.workloads.windowed.settings import Settings as SETTINGS

if TYPE_CHECKING:
    from headrace.lab.workload import Workload

    WORKLOADS: tuple[Workload, ...]

__all__ = ["SETTINGS", "WORKLOADS", "generator"]


def __getattr__(name: str) -> Any:
    """Load the pipelines, and Beam with them, when they are asked for."""
    if name != "WORKLOADS":
        raise AttributeError(name)
    from headrace.lab.workloads.windowed import aggregation, join

    return (aggregation.WORKLOAD, aggregation.BY_ARRIVAL, join.WORKLOAD, join.BY_ARRIVAL)
