"""Scaling, shuffle: how do two keyed aggregates scale with an exchange between them?

Input: `Item` (number, time, key, value).
Output: one row per fixed window of `window_ms` and group:

    start_ms  long  start of the window, milliseconds since 1970
    group     long  from 0 to `groups` - 1
    keys      long  keys whose total falls into the group
    count     long  elements of those keys
    total     long  the low 31 bits of those keys' totals, after the same work once more, added

Graph: the aggregate of `keyed`; then every key's total goes to the group total % `groups`, where
the second aggregate works on its low 31 bits. The group follows from the first aggregate's result,
so the exchange cannot be saved by a better choice of the first key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.windows import start_ms
from headrace.lab.workloads.scaling.generator import ItemGenerator
from headrace.lab.workloads.scaling.keyed import Aggregate
from headrace.lab.workloads.scaling.settings import ScalingSettings
from headrace.lab.workloads.scaling.work import LOW_BITS, work_on

_Sums = tuple[int, int, int]  # keys, elements, total


class Shuffle(beam.PTransform):  # type: ignore[misc]
    """Items -> rows."""

    def __init__(self, settings: ScalingSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        return (
            items
            | "First" >> Aggregate(settings)
            | "By group"
            >> beam.Map(_by_group, settings.groups).with_output_types(tuple[int, tuple[int, int]])
            | "Second" >> beam.CombinePerKey(WorkedTotals(settings.work))
            | "Row" >> beam.Map(_row).with_output_types(tuple[int, int, int, int, int])
        )


class WorkedTotals(beam.CombineFn):  # type: ignore[misc]
    """Works on totals; adds keys, elements and worked totals.

    Args:
        times: multiplications per total.
    """

    def __init__(self, times: int) -> None:
        self._times = times

    def create_accumulator(self) -> _Sums:
        """Give nothing."""
        return 0, 0, 0

    def add_input(self, accumulator: _Sums, summed: tuple[int, int]) -> _Sums:
        """Work on one key's total."""
        keys, elements, total = accumulator
        count, value = summed
        return keys + 1, elements + count, total + work_on(value & LOW_BITS, self._times)

    def merge_accumulators(self, accumulators: Iterable[_Sums]) -> _Sums:
        """Add each of the three."""
        keys = elements = total = 0
        for more_keys, more_elements, added in accumulators:
            keys += more_keys
            elements += more_elements
            total += added
        return keys, elements, total

    def extract_output(self, accumulator: _Sums) -> _Sums:
        """Give the three."""
        return accumulator


def _by_group(
    summed: tuple[int, tuple[int, int]], groups: int
) -> tuple[int, tuple[int, int]]:
    _, (count, total) = summed
    return total % groups, (count, total)


def _row(summed: tuple[int, _Sums], window: Any = beam.DoFn.WindowParam) -> Row:
    group, (keys, count, total) = summed
    return start_ms(window), group, keys, count, total


WORKLOAD = Workload(
    suite="scaling",
    name="shuffle",
    title="How do two keyed aggregates scale with an exchange between them?",
    settings=ScalingSettings,
    generator=ItemGenerator,
    columns=(
        Column("start_ms", Kind.LONG),
        Column("group", Kind.LONG),
        Column("keys", Kind.LONG),
        Column("count", Kind.LONG),
        Column("total", Kind.LONG),
    ),
    build=Shuffle,
    oracle="headrace.lab.oracle.scaling:shuffle",
    native="headrace.lab.native.scaling:shuffle",
    by_columns=ByColumns(columns=("number", "key", "value"), build=Shuffle),
)
