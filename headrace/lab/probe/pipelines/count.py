"""How many events of each key come in every window, and which was the last of them?

Input:  ProbeEvent(number, key); the element's timestamp is the event's time.
Output: (window_start: int in ms since 1970, key, count, last: the greatest number), at its end.

The last number says when the newest input of a row was to be sent: the row's latency counts from
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from headrace.lab.probe.events import ProbeEvent, ProbeGenerator, ProbeSettings
from headrace.lab.workload import Column, Kind, Workload


class CountAndLast(beam.CombineFn):  # type: ignore[misc]
    """How many numbers there are, and the greatest of them."""

    def create_accumulator(self) -> tuple[int, int]:
        """Nothing yet."""
        return 0, -1

    def add_input(self, accumulator: tuple[int, int], number: int) -> tuple[int, int]:
        """Take one number."""
        return accumulator[0] + 1, max(accumulator[1], number)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Take several at once."""
        count, last = 0, -1
        for more, other in accumulators:
            count += more
            last = max(last, other)
        return count, last

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give (how many, the greatest)."""
        return accumulator


def key_and_number(event: ProbeEvent) -> tuple[int, int]:
    """Keep what is counted. Rows of a DataFrame have the same names."""
    return event.key, event.number


def row(
    found: tuple[int, tuple[int, int]], window: Any = beam.DoFn.WindowParam
) -> tuple[int, int, int, int]:
    """Write a count with its window."""
    key, (count, last) = found
    return window.start.micros // 1_000, key, count, last


class Count(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key, window, combine."""

    def __init__(self, settings: ProbeSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        seconds = self._settings.window_ms / 1_000
        combine = beam.CombinePerKey(CountAndLast())
        return (
            events
            | "Key" >> beam.Map(key_and_number).with_output_types(tuple[int, int])
            | "Windows" >> beam.WindowInto(beam.window.FixedWindows(seconds))
            | "Count" >> combine.with_output_types(tuple[int, tuple[int, int]])
            | "Rows" >> beam.Map(row).with_output_types(tuple[int, int, int, int])
        )


COUNT = Workload(
    suite="probe",
    name="count",
    title="How many events of each key come in every window?",
    settings=ProbeSettings,
    generator=ProbeGenerator,
    columns=tuple(
        Column(name, Kind.LONG) for name in ("window_start", "key", "count", "last")
    ),
    build=Count,
    oracle="headrace.lab.probe.answer:count_from_log",
    native="headrace.lab.probe.native:count",
)
