"""Which events have a score that can be divided by N?

Input:  ProbeEvent(number, key); the element's timestamp is the event's time.
Output: (score = 31 * number + key, key, number), at once.

No state and no window: what a system takes to bring an event in, to compute with it, and to let
one of N out. Between the two steps there may be others, whose cost is set.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import apache_beam as beam

from headrace.lab.probe.events import ProbeEvent, ProbeGenerator, ProbeSettings
from headrace.lab.probe.pipelines.costs import Spend
from headrace.lab.workload import Column, Kind, Workload


def scored(event: ProbeEvent) -> tuple[int, int, int]:
    """Give an event its score. Rows of a DataFrame have the same names."""
    return event.number * 31 + event.key, event.key, event.number


def is_kept(one_in: int, row: tuple[int, int, int]) -> bool:
    """Say whether a score can be divided."""
    return row[0] % one_in == 0


class Filter(beam.PTransform):  # type: ignore[misc]
    """The pipeline: map, filter."""

    def __init__(self, settings: ProbeSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        settings = self._settings
        rows = events | "Score" >> beam.Map(scored).with_output_types(tuple[int, int, int])
        for name, micros in settings.costs:
            spend = beam.ParDo(Spend(micros, spins=settings.spins))
            rows |= name >> spend.with_output_types(tuple[int, int, int])
        return rows | "Keep" >> beam.Filter(partial(is_kept, settings.one_in))


FILTER = Workload(
    suite="probe",
    name="filter",
    title="Which events have a score that can be divided by N?",
    settings=ProbeSettings,
    generator=ProbeGenerator,
    columns=tuple(Column(name, Kind.LONG) for name in ("score", "key", "number")),
    build=Filter,
    oracle="headrace.lab.probe.answer:filter_from_log",
    native="headrace.lab.probe.native:filter_scores",
    stateless=True,
)
