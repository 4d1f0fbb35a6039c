"""Scaling, keyed: how does one keyed aggregate scale with its work?

Input: `Item` (number, time, key, value).
Output: one row per fixed window of `window_ms` and key, over the elements whose number is a
multiple of `selectivity`:

    start_ms  long  start of the window, milliseconds since 1970
    key       long
    count     long  elements
    total     long  their values after the work of `stateless`, added

Graph: one keyed aggregate that does the work.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.windows import fixed, start_ms
from headrace.lab.workloads.scaling.generator import ItemGenerator
from headrace.lab.workloads.scaling.model import Item
from headrace.lab.workloads.scaling.settings import ScalingSettings
from headrace.lab.workloads.scaling.work import WorkedSum, is_chosen


class Aggregate(beam.PTransform):  # type: ignore[misc]
    """Items -> (key, (count, total)) in fixed windows."""

    def __init__(self, settings: ScalingSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        return (
            items
            | "Choose" >> beam.Filter(is_chosen, settings.selectivity)
            | "Windows" >> beam.WindowInto(fixed(settings.window_ms))
            | "By key" >> beam.Map(_by_key).with_output_types(tuple[int, int])
            | "Aggregate" >> beam.CombinePerKey(WorkedSum(settings.work))
        )


class Keyed(beam.PTransform):  # type: ignore[misc]
    """Items -> rows."""

    def __init__(self, settings: ScalingSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        return (
            items
            | "Keyed" >> Aggregate(self._settings)
            | "Row" >> beam.Map(_row).with_output_types(tuple[int, int, int, int])
        )


def _by_key(item: Item) -> tuple[int, int]:
    return item.key, item.value


def _row(summed: tuple[int, tuple[int, int]], window: Any = beam.DoFn.WindowParam) -> Row:
    key, (count, total) = summed
    return start_ms(window), key, count, total


WORKLOAD = Workload(
    suite="scaling",
    name="keyed",
    title="How does one keyed aggregate scale with its work?",
    settings=ScalingSettings,
    generator=ItemGenerator,
    columns=(
        Column("start_ms", Kind.LONG),
        Column("key", Kind.LONG),
        Column("count", Kind.LONG),
        Column("total", Kind.LONG),
    ),
    build=Keyed,
    oracle="headrace.lab.oracle.scaling:keyed",
    native="headrace.lab.native.scaling:keyed",
    by_columns=ByColumns(columns=("number", "key", "value"), build=Keyed),
)
