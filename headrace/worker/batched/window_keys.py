"""What stands for a window in a table, and when it ends: without building Beam's objects."""

from __future__ import annotations

from collections.abc import Hashable

from apache_beam.transforms.window import IntervalWindow

from headrace.worker.beam_types import Window

#: What a dict may find a window by; see `window_key`.
WindowKey = Hashable


def window_key(window: Window) -> WindowKey:
    """Give what stands for a window in a table: Beam's intervals are slow to compare."""
    if type(window) is IntervalWindow:
        return window._start_micros, window._end_micros  # type: ignore[attr-defined]  # noqa: SLF001 (builds no object)
    return window


def last_moment(window: Window) -> int:
    """Give a window's last moment in microseconds."""
    if type(window) is IntervalWindow:
        end: int = window._end_micros  # type: ignore[attr-defined]  # noqa: SLF001 (the same)
        return end - 1
    return window.max_timestamp().micros
