"""At what time a pane leaves: Beam's timestamp combiners, on microseconds.

Beam computes the same with objects, one element at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from apache_beam.transforms.window import TimestampCombiner
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.batched.window_keys import last_moment
from headrace.worker.beam_types import Instant, Window, Windowing

#: (window, times of elements, watermark) -> the time to hold; None if all elements are late.
OutputTime = Callable[[Window, list[int], int], int | None]


def joined(windowing: Windowing) -> Callable[[int, int], int]:
    """Give how two output times of one window make one."""
    earliest = (
        TimestampCombiner.OUTPUT_AT_EARLIEST, TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED,
    )  # fmt: skip
    return min if windowing.timestamp_combiner in earliest else max


def output_time(windowing: Windowing) -> OutputTime:
    """Give how the output time of a window follows from its elements."""
    match windowing.timestamp_combiner:
        case TimestampCombiner.OUTPUT_AT_EOW:
            return _end_of_window
        case TimestampCombiner.OUTPUT_AT_EARLIEST:
            return lambda _window, times, mark: min((t for t in times if t >= mark), default=None)
        case TimestampCombiner.OUTPUT_AT_LATEST:
            return lambda _window, times, mark: max((t for t in times if t >= mark), default=None)
        case TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
            return _transformed(windowing.windowfn.get_transformed_output_time)
    msg = f"unknown timestamp combiner {windowing.timestamp_combiner}"
    raise ValueError(msg)


def _end_of_window(window: Window, _times: list[int], _mark: int) -> int | None:
    return last_moment(window)


def _transformed(transform: Callable[[Window, Instant], Instant]) -> OutputTime:
    def earliest(window: Window, times: list[int], mark: int) -> int | None:
        moved = (transform(window, Timestamp(micros=t)).micros for t in times)
        return min((t for t in moved if t >= mark), default=None)

    return earliest
