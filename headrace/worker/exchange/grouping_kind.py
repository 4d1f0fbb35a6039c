"""Decides which way a grouping is computed, from its windowing strategy.

Takes Beam's windowing strategy, gives the path and what the path needs. Holds no elements.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import trigger, window

from headrace.worker.beam_types import Windowing


class Grouping(Enum):
    """How a GroupByKey is computed at the end of a bounded input."""

    GLOBAL = "global"  # one global window, default trigger: windows need not travel at all
    INTERVALS = "intervals"  # non-merging interval windows, default trigger, end of window
    SESSIONS = "sessions"  # Beam's own sessions, default trigger, end of window: spans per key
    GENERAL = "general"  # anything else: Beam's trigger driver, key by key


def grouping_of(windowing: Windowing) -> Grouping:
    """Pick the cheapest path that gives the panes Beam's trigger driver would give."""
    if windowing.is_default():
        return Grouping.GLOBAL
    fires_once = (
        isinstance(windowing.triggerfn, trigger.DefaultTrigger)
        and windowing.timestamp_combiner == window.TimestampCombiner.OUTPUT_AT_EOW
    )
    fn = windowing.windowfn
    plain_intervals = type(fn) in (window.FixedWindows, window.SlidingWindows) and _in_millis(fn)
    if fires_once and type(fn) is window.Sessions:
        return Grouping.SESSIONS
    return Grouping.INTERVALS if fires_once and plain_intervals else Grouping.GENERAL


def spans_suffice(windowing: Windowing) -> bool:
    """Whether an element's windows are intervals, and no pane asks for the time of an element.

    Then a pair can travel with the bounds of its windows alone.
    """
    return (
        type(windowing.windowfn.get_window_coder()) is IntervalWindowCoder
        and windowing.timestamp_combiner == window.TimestampCombiner.OUTPUT_AT_EOW
    )


def _in_millis(fn: Any) -> bool:
    """Whether all windows begin and end on whole milliseconds, the most that Beam's coder keeps.

    Else one window has two names: a cut one in rows, a whole one in bulk.
    """
    spans = [fn.size, fn.offset, getattr(fn, "period", fn.size)]
    return not any(span.micros % 1_000 for span in spans)
