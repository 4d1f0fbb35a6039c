"""The streaming questions of HiBench: identity, repartition, wordcount, fixwindow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lab.workloads.hibench.generator import HiBenchGenerator as generator
from headrace.lab.workloads.hibench.settings import Settings as SETTINGS

if TYPE_CHECKING:
    from headrace.lab.workload import Workload

    WORKLOADS: tuple[Workload, ...]

__all__ = ["SETTINGS", "WORKLOADS", "generator"]


def __getattr__(name: str) -> Any:
    """Load the pipelines, and Beam with them, when they are asked for."""
    if name != "WORKLOADS":
        raise AttributeError(name)
    from headrace.lab.workloads.hibench.fixwindow import WORKLOAD as FIXWINDOW
    from headrace.lab.workloads.hibench.identity import WORKLOAD as IDENTITY
    from headrace.lab.workloads.hibench.repartition import WORKLOAD as REPARTITION
    from headrace.lab.workloads.hibench.wordcount import WORKLOAD as WORDCOUNT

    return (IDENTITY, REPARTITION, WORDCOUNT, FIXWINDOW)
