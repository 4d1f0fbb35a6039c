"""Decides which way a grouping is computed, from its windowing strategy.

Takes Beam's windowing strategy, gives the path and what the path needs. Holds no elements.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import trigger, window

from headrace.worker.beam_types import Windowing


class Grouping(Enum):
    """How a GroupByKey is computed at the end of a bounded input."""

    GLOBAL = "global"  # one global window, default trigger: windows need not travel at all
    INTERVALS = "intervals"  # non-merging interval windows, default trigger, end of window
    SESSIONS = "sessions"  # Beam's own sessions, end of window, default trigger or `Counts`
    GENERAL = "general"  # anything else: Beam's trigger driver, key by key


class Counts(NamedTuple):
    """What `AfterWatermark` waits for besides the end of the window, in elements."""

    early: int | None  # a pane leaves ahead of the end after each so many; None: none does
    late: int | None  # the same behind the end; None: what comes then is dropped


def counts_of(windowing: Windowing) -> Counts | None:
    """Give how many elements make a pane; None: the trigger is another one."""
    at_end = windowing.triggerfn
    if not isinstance(at_end, trigger.AfterWatermark) or type(at_end) is not trigger.AfterWatermark:
        return None
    found = [_count(at_end.early), _count(at_end.late)]
    return None if 0 in found else Counts(*found)


def _count(firings: object) -> int | None:
    """Give what a trigger counts up to, again and again; None if there is none, 0 for another."""
    if firings is None:
        return None
    if not isinstance(firings, trigger.Repeatedly) or type(firings) is not trigger.Repeatedly:
        return 0
    each = firings.underlying
    return int(each.count) if type(each) is trigger.AfterCount else 0


def grouping_of(windowing: Windowing) -> Grouping:
    """Pick the cheapest path that gives the panes Beam's trigger driver would give."""
    if windowing.is_default():
        return Grouping.GLOBAL
    at_end = windowing.timestamp_combiner == window.TimestampCombiner.OUTPUT_AT_EOW
    fires_once = at_end and isinstance(windowing.triggerfn, trigger.DefaultTrigger)
    fn = windowing.windowfn
    plain_intervals = type(fn) in (window.FixedWindows, window.SlidingWindows) and _in_millis(fn)
    if type(fn) is window.Sessions and (fires_once or (at_end and counts_of(windowing))):
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
