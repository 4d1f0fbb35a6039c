"""Decides what the firings of a side input mean for its views.

Takes Beam's windowing of a side input, gives when its windows fire, and how long one has to wait
for a first firing. Holds no elements.
"""

from __future__ import annotations

from enum import Enum

from apache_beam.transforms import trigger

from headrace.worker.beam_types import Trigger, Windowing


class Firing(Enum):
    """When the windows of a side input get their elements."""

    ONCE = "once"  # when the watermark passes the window: elements add up
    LATE = "late"  # first then, and again with late data: what comes later replaces
    OFTEN = "often"  # at any time, and again: each firing replaces the one before


def firing_of(windowing: Windowing) -> Firing:
    """Find from a side input's windowing how its windows fire."""
    fires = windowing.triggerfn
    if isinstance(fires, trigger.Repeatedly):
        fires = fires.underlying
        again = True
    else:
        again = isinstance(fires, trigger.DefaultTrigger)
    if isinstance(fires, trigger.AfterWatermark):
        if fires.early is not None:
            return Firing.OFTEN
        again = again or fires.late is not None
    elif not isinstance(fires, trigger.DefaultTrigger):
        return Firing.OFTEN
    return Firing.LATE if again and windowing.allowed_lateness.micros > 0 else Firing.ONCE


def patience_of(windowing: Windowing) -> int:
    """Give how long after a window's end its first firing may still come, in microseconds.

    A trigger that asks for the watermark has fired at the end if there was anything to fire. One
    that counts, or looks at the clock, may fire as long as late data may come.
    """
    return 0 if _fires_at_end(windowing.triggerfn) else int(windowing.allowed_lateness.micros)


def _fires_at_end(fires: Trigger) -> bool:
    """Whether a trigger has fired for the first time when the watermark passes a window's end."""
    match fires:
        case trigger.DefaultTrigger() | trigger.AfterWatermark():
            return True
        case trigger.Repeatedly():
            return _fires_at_end(fires.underlying)
        case trigger.AfterAny():
            return any(map(_fires_at_end, fires.triggers))
        case trigger.AfterAll():
            return all(map(_fires_at_end, fires.triggers))
        case trigger.AfterEach():
            return _fires_at_end(fires.triggers[0])
    return False
