"""The Yahoo streaming benchmark: views of ads, counted by campaign and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lab.workloads.yahoo.generator import YahooGenerator as generator
from headrace.lab.workloads.yahoo.settings import Settings as SETTINGS

if TYPE_CHECKING:
    from headrace.lab.workload import Workload

    WORKLOADS: tuple[Workload, ...]

__all__ = ["SETTINGS", "WORKLOADS", "generator"]


def __getattr__(name: str) -> Any:
    """Load the pipelines, and Beam with them, when they are asked for."""
    if name != "WORKLOADS":
        raise AttributeError(name)
    from headrace.lab.workloads.yahoo.campaigns import WORKLOAD

    return (WORKLOAD,)
