"""When did each record happen, and when did it leave the system?

Input:  str, the line of a record; the element's timestamp is the record's.
Output: (event_time: int, time_now: int), both in ms since 1970, one for each record.

The second column is another in every run, so answers are compared by the first alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from headrace.lab.workload import Column, Kind, Row, Workload
from headrace.lab.workloads.hibench.generator import HiBenchGenerator
from headrace.lab.workloads.hibench.model import event_time
from headrace.lab.workloads.hibench.settings import Settings


def stamped(line: str) -> tuple[int, int]:
    """Give a record's time and the time now; the benchmark asks the clock for every record."""
    return event_time(line), time.time_ns() // 1_000_000


def by_event_time(rows: Iterable[Row]) -> Counter[Row]:
    """Compare how often each event time comes."""
    return Counter((row[0],) for row in rows)


def build(settings: Settings) -> Any:
    """Give the pipeline: one step."""
    return beam.Map(stamped).with_output_types(tuple[int, int])


WORKLOAD = Workload(
    suite="hibench",
    name="identity",
    title="When did each record happen, and when did it leave the system?",
    settings=Settings,
    generator=HiBenchGenerator,
    columns=(Column("event_time", Kind.LONG), Column("time_now", Kind.LONG)),
    build=build,
    oracle="headrace.lab.oracle.hibench:identity",
    native="headrace.lab.native.hibench:identity",
    rule=by_event_time,
    stateless=True,
)
