"""Watermark policies: how far out of order the rows of a streaming DataFrame may be.

Descriptions only; `headrace.plan.clocks` computes with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.plan.clocks import SourceClock

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness:
    """Rows come at most so many seconds out of order.

    The watermark is the greatest event time that was read, less these seconds.

    Args:
        seconds: zero or more.
        idle_after: a partition that brought nothing for so many seconds does not hold the watermark
            back; more than zero. None: it does, for ever.
        max_ahead: rows whose event time is more than so many seconds ahead of the driver's clock do
            not move the watermark; zero or more. None: they do.
    """

    seconds: float
    idle_after: float | None = None
    max_ahead: float | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        _check(name, "seconds", self.seconds)
        _check_limits(name, self.idle_after, self.max_ahead)

    def clock(self) -> SourceClock:
        """Give the clock of a source that has brought nothing yet."""
        return SourceClock(
            delay=round(self.seconds * _MICROS),
            idle_after=_micros(self.idle_after),
            max_ahead=_micros(self.max_ahead),
        )


@dataclass(frozen=True, slots=True)
class Monotonic:
    """The rows of a partition come in the order of their event times.

    Args:
        idle_after: as in `BoundedOutOfOrderness`.
        max_ahead: as in `BoundedOutOfOrderness`.
    """

    idle_after: float | None = None
    max_ahead: float | None = None

    def __post_init__(self) -> None:
        _check_limits(type(self).__name__, self.idle_after, self.max_ahead)

    def clock(self) -> SourceClock:
        """Give the clock of a source that has brought nothing yet."""
        return SourceClock(idle_after=_micros(self.idle_after), max_ahead=_micros(self.max_ahead))


Policy = BoundedOutOfOrderness | Monotonic


def policy_of(given: Any) -> Policy:
    """Read what a user gave: a policy, or the seconds of one.

    Raises:
        OptionError: it is neither.
    """
    if isinstance(given, BoundedOutOfOrderness | Monotonic):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return BoundedOutOfOrderness(given)
    msg = (
        f"ReadFromSpark: watermark={given!r} is no policy; give BoundedOutOfOrderness(...), "
        "Monotonic() or a number of seconds"
    )
    raise OptionError(msg)


def _check_limits(policy: str, idle_after: Any, max_ahead: Any) -> None:
    if idle_after is not None:
        _check(policy, "idle_after", idle_after, above_zero=True)
    if max_ahead is not None:
        _check(policy, "max_ahead", max_ahead)


def _check(policy: str, name: str, value: Any, *, above_zero: bool = False) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # The least number of seconds that still is a microsecond.
    least = 1 / _MICROS if above_zero else 0
    if not number or not math.isfinite(value) or value < least:
        domain = "more than zero" if above_zero else "zero or more"
        msg = f"{policy}: {name}={value!r} is no finite number of seconds, {domain}"
        raise OptionError(msg)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _MICROS)
