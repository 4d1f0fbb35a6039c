"""How many events has each key had, and what do their numbers add up to, at every Nth of them?

Input:  ProbeEvent(number, key); the element's timestamp is the event's time.
Output: (key, count, total of the numbers so far, number), at once.

State of a key, read and written at every event. The totals are right only where the events of a key
come in the order in which they were sent, so a right answer shows that order too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.probe.pipelines.count import key_and_number
from headrace.lab.workload import Column, Kind, Workload


class Running(beam.DoFn):  # type: ignore[misc]
    """Adds up the numbers of a key.

    Args:
        every: events between two rows.
    """

    SO_FAR = ReadModifyWriteStateSpec("so_far", TupleCoder([VarIntCoder(), VarIntCoder()]))

    def __init__(self, every: int) -> None:
        self._every = every

    def process(
        self, element: tuple[int, int], so_far: Any = beam.DoFn.StateParam(SO_FAR)  # noqa: B008
    ) -> Iterator[tuple[int, int, int, int]]:
        """Take one event."""
        key, number = element
        count, total = so_far.read() or (0, 0)
        count, total = count + 1, total + number
        so_far.write((count, total))
        if count % self._every == 0:
            yield key, count, total, number


class State(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key, add up."""

    def __init__(self, settings: ProbeSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        add = beam.ParDo(Running(self._settings.every))
        return (
            events
            | "Key" >> beam.Map(key_and_number).with_output_types(tuple[int, int])
            | "Add" >> add.with_output_types(tuple[int, int, int, int])
        )


STATE = Workload(
    suite="probe",
    name="state",
    title="How many events has each key had, and what do their numbers add up to?",
    settings=ProbeSettings,
    generator=ProbeGenerator,
    columns=tuple(Column(name, Kind.LONG) for name in ("key", "count", "total", "number")),
    build=State,
    oracle="headrace.lab.probe.answer:state_from_log",
    native="headrace.lab.probe.native:state",
)
