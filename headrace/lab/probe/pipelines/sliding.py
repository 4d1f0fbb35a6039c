"""How many events of each key come in every sliding window, and which was the last of them?

Input:  ProbeEvent(number, key); the element's timestamp is the event's time.
Output: (window_start: int in ms since 1970, key, count, last: the greatest number), at its end.

A window is `panes` times as long as the time between the starts of two of them, so every event is
in so many windows.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.probe.pipelines.count import CountAndLast, key_and_number, row
from headrace.lab.workload import Column, Kind, Workload


class Sliding(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key, windows, combine."""

    def __init__(self, settings: ProbeSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        period = self._settings.window_ms / 1_000
        windows = beam.window.SlidingWindows(period * self._settings.panes, period)
        combine = beam.CombinePerKey(CountAndLast())
        return (
            events
            | "Key" >> beam.Map(key_and_number).with_output_types(tuple[int, int])
            | "Windows" >> beam.WindowInto(windows)
            | "Count" >> combine.with_output_types(tuple[int, tuple[int, int]])
            | "Rows" >> beam.Map(row).with_output_types(tuple[int, int, int, int])
        )


SLIDING = Workload(
    suite="probe",
    name="sliding",
    title="How many events of each key come in every sliding window?",
    settings=ProbeSettings,
    generator=ProbeGenerator,
    columns=tuple(
        Column(name, Kind.LONG) for name in ("window_start", "key", "count", "last")
    ),
    build=Sliding,
    oracle="headrace.lab.probe.answer:sliding_from_log",
    native="headrace.lab.probe.native:sliding",
)
