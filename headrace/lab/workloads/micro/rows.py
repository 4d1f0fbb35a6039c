"""Elements of the micro benchmarks from rows of their log, which tells times in nanoseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns
from headrace.lab.workloads.micro.model import Item


class OfRows(beam.PTransform):  # type: ignore[misc]
    """Rows of number, nanoseconds and value, to a question's answer."""

    def __init__(self, query: Any) -> None:
        super().__init__()
        self._query = query

    def expand(self, rows: Any) -> Any:
        """Make the elements."""
        element = beam.Map(item_of).with_output_types(Item)
        return rows | "Element" >> element | "Of elements" >> self._query


def item_of(row: Any) -> Item:
    """Make an element."""
    return Item(row.number, row.nanos // 1_000, row.value)


def of_rows(build: Callable[[Any], Any]) -> ByColumns:
    """Give the form in which a question is asked of columns."""
    return ByColumns(
        columns=("number", "nanos", "value"), build=lambda settings: OfRows(build(settings))
    )
