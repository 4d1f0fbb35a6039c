"""The windows of both questions, by event time or by time of arrival.

Windows by arrival: each element is stamped with the clock when it is read. No watermark tells when
such a window is over, so its result is given by the clock too, one length of the window after its
first element, when nothing can join it any more. Slow runs may bring a second result for a window;
it then repeats the whole. A bounded input has its results at its end.
"""

from __future__ import annotations

import time
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workloads.windowed.settings import Settings


def windows(settings: Settings) -> Any:
    """Give the window function that the settings tell of."""
    size, slide = settings.window_size_sec, settings.slide_sec
    return FixedWindows(size) if slide == size else SlidingWindows(size, slide)


def by_event_time(settings: Settings) -> Any:
    """Give the step that puts elements into windows of their own times."""
    return beam.WindowInto(windows(settings))


def arrived(element: Any) -> Any:
    """Stamp an element with the clock."""
    return TimestampedValue(element, Timestamp(micros=time.time_ns() // 1_000))


class ByArrival(beam.PTransform):  # type: ignore[misc]
    """Puts elements into windows of the times at which they are read."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, elements: Any) -> Any:
        """Build the steps."""
        stamp = beam.Map(arrived).with_output_types(elements.element_type)
        by_clock = {
            "trigger": Repeatedly(AfterProcessingTime(self._settings.window_size_sec)),
            "accumulation_mode": AccumulationMode.ACCUMULATING,
        }
        # A bounded input ends before a clock would help, and Beam's local runner has none there.
        trigger_of = {} if elements.is_bounded else by_clock
        window = beam.WindowInto(windows(self._settings), **trigger_of)
        return elements | "Stamp" >> stamp | "Window" >> window


def start_ms(window: Any) -> int:
    """Give the start of a window in milliseconds since 1970."""
    start: int = window.start.micros
    return start // 1_000
