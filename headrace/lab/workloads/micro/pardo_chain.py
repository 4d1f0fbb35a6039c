"""The ParDo benchmark: what does it cost to hand an element through 20 ParDos that do nothing?

Input: `Item` (number, time, value), 24 bytes.
Output: every element, as it came:

    number  long
    time    long  microseconds since 1970
    value   long

Graph: `stages` ParDos in a row. Whether a system fuses them is part of what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from headrace.lab.workload import Column, Kind, Workload
from headrace.lab.workloads.micro.generator import ItemGenerator
from headrace.lab.workloads.micro.model import Item
from headrace.lab.workloads.micro.rows import of_rows
from headrace.lab.workloads.micro.settings import ChainSettings


class HandOn(beam.DoFn):  # type: ignore[misc]
    """Gives what it takes."""

    def process(self, element: Item) -> Iterator[Item]:
        """Hand one element on."""
        yield element


class PardoChain(beam.PTransform):  # type: ignore[misc]
    """Items -> rows."""

    def __init__(self, settings: ChainSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, items: Any) -> Any:
        """Build the graph."""
        for stage in range(1, self._settings.stages + 1):
            items = items | f"Pass {stage}" >> beam.ParDo(HandOn()).with_output_types(Item)
        return items | "Row" >> beam.Map(tuple).with_output_types(tuple[int, int, int])


WORKLOAD = Workload(
    suite="micro",
    name="pardo_chain",
    title="What does it cost to hand an element through 20 ParDos that do nothing?",
    settings=ChainSettings,
    generator=ItemGenerator,
    columns=(
        Column("number", Kind.LONG),
        Column("time", Kind.LONG),
        Column("value", Kind.LONG),
    ),
    build=PardoChain,
    oracle="headrace.lab.oracle.micro:pardo_chain",
    native="headrace.lab.native.micro:pardo_chain",
    by_columns=of_rows(PardoChain),
    stateless=True,
)
