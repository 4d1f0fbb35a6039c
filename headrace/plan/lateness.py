"""Decides when a window is over, so that an element of it comes too late.

Pure, and the one place where this is decided: groupings, triggers and stateful ParDos ask here,
each for one window at a time. What they drop is counted in one unit, an element in one window.
"""

from __future__ import annotations

from headrace.plan.clocks import MAX_TIME


def over_from(last_moment: int, allowed: int = 0) -> int:
    """Give the first watermark at which a window is over: an element that comes then is dropped.

    Beam's model: a window becomes droppable when its last moment plus the allowed lateness is
    before the watermark. At the end of time every window is over.

    >>> over_from(9_999_999), over_from(9_999_999, allowed=5_000_000)
    (10000000, 15000000)

    Args:
        last_moment: `max_timestamp` of the window, in microseconds.
        allowed: microseconds that elements may come after it.
    """
    return min(last_moment + allowed + 1, MAX_TIME)


def is_over(last_moment: int, watermark: int, allowed: int = 0) -> bool:
    """Tell whether a window is over at this input watermark.

    >>> is_over(9_999_999, watermark=9_999_999), is_over(9_999_999, watermark=10_000_000)
    (False, True)
    """
    return over_from(last_moment, allowed) <= watermark
