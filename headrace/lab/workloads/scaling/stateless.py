"""Scaling, stateless: how does one operator without state scale with its work?

Input: `Item` (number, time, key, value).
Output: one row per element whose number is a multiple of `selectivity`:

    number  long
    worked  long  the value after `work` multiplications by 48,271, each cut to the low 31 bits

Graph: one stateless operator.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.scaling.generator import ItemGenerator
from headrace.lab.workloads.scaling.model import Item
from headrace.lab.workloads.scaling.settings import ScalingSettings
from headrace.lab.workloads.scaling.work import is_chosen, work_on


class Stateless(beam.PTransform):  # type: ignore[misc]
    """Items -> rows."""

    def __init__(self, settings: ScalingSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        return (
            items
            | "Choose" >> beam.Filter(is_chosen, settings.selectivity)
            | "Work" >> beam.Map(_worked, settings.work).with_output_types(tuple[int, int])
        )


def _worked(item: Item, times: int) -> Row:
    return item.number, work_on(item.value, times)


WORKLOAD = Workload(
    suite="scaling",
    name="stateless",
    title="How does one operator without state scale with its work?",
    settings=ScalingSettings,
    generator=ItemGenerator,
    columns=(Column("number", Kind.LONG), Column("worked", Kind.LONG)),
    build=Stateless,
    oracle="headrace.lab.oracle.scaling:stateless",
    native="headrace.lab.native.scaling:stateless",
    by_columns=ByColumns(columns=("number", "value"), build=Stateless),
    stateless=True,
)
