"""The GroupByKey benchmark: what does it cost to group elements by window and key?

Input: `Item` (number, time, value), 24 bytes.
Output: one row per element and window it is in, the groups split back into elements:

    start_ms  long  start of the window, milliseconds since 1970
    key       long  number % `keys`
    number    long
    value     long

Graph: sliding windows (2 s every 1 s), keys in turn over 10, GroupByKey, split. Elements travel
whole: nothing is combined before the exchange.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows
from apache_beam.utils.timestamp import Duration

from headrace.lab.workload import Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.windows import start_ms
from headrace.lab.workloads.micro.generator import ItemGenerator
from headrace.lab.workloads.micro.model import Item
from headrace.lab.workloads.micro.rows import of_rows
from headrace.lab.workloads.micro.settings import GroupSettings

_MICROS_PER_MS = 1_000


class GroupAndSplit(beam.PTransform):  # type: ignore[misc]
    """Items -> rows."""

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        windows = SlidingWindows(
            size=Duration(micros=settings.window_ms * _MICROS_PER_MS),
            period=Duration(micros=settings.slide_ms * _MICROS_PER_MS),
        )
        return (
            items
            | "Windows" >> beam.WindowInto(windows)
            | "Keys"
            >> beam.Map(_keyed, settings.keys).with_output_types(tuple[int, tuple[int, int, int]])
            | "Group" >> beam.GroupByKey()
            | "Split" >> beam.FlatMap(_split).with_output_types(tuple[int, int, int, int])
        )


def _keyed(item: Item, keys: int) -> tuple[int, tuple[int, int, int]]:
    number, time, value = item
    return number % keys, (number, time, value)


def _split(
    group: tuple[int, Iterable[tuple[int, int, int]]], window: Any = beam.DoFn.WindowParam
) -> list[Row]:
    key, items = group
    start = start_ms(window)
    return [(start, key, number, value) for number, _, value in items]


WORKLOAD = Workload(
    suite="micro",
    name="group_by_key",
    title="What does it cost to group elements by window and key?",
    settings=GroupSettings,
    generator=ItemGenerator,
    columns=(
        Column("start_ms", Kind.LONG),
        Column("key", Kind.LONG),
        Column("number", Kind.LONG),
        Column("value", Kind.LONG),
    ),
    build=GroupAndSplit,
    oracle="headrace.lab.oracle.micro:group_by_key",
    native="headrace.lab.native.micro:group_by_key",
    by_columns=of_rows(GroupAndSplit),
)
