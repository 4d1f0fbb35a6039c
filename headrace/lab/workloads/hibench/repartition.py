"""Which records are there, after each was sent to the next worker in turn?

Input:  str, the line of a record; the element's timestamp is the record's.
Output: (record: str), the same line.

Beam's name for an exchange without a key is Reshuffle; who receives what is the runner's choice.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workload import Column, Kind, Workload
from headrace.lab.workloads.hibench.generator import HiBenchGenerator
from headrace.lab.workloads.hibench.settings import Settings


def row(line: str) -> tuple[str]:
    """Write a line as a row."""
    return (line,)


class Repartition(beam.PTransform):  # type: ignore[misc]
    """Sends every record to another worker and does nothing else."""

    def expand(self, lines: Any) -> Any:
        """Build the steps."""
        return (
            lines
            | "Exchange" >> beam.Reshuffle()
            | "Rows" >> beam.Map(row).with_output_types(tuple[str])
        )


def build(settings: Settings) -> Any:
    """Give the pipeline."""
    return Repartition()


WORKLOAD = Workload(
    suite="hibench",
    name="repartition",
    title="Which records are there, after each was sent to the next worker in turn?",
    settings=Settings,
    generator=HiBenchGenerator,
    columns=(Column("record", Kind.STRING),),
    build=build,
    oracle="headrace.lab.oracle.hibench:repartition",
    native="headrace.lab.native.hibench:repartition",
    stateless=True,
)
