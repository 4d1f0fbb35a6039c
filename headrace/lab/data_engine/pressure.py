"""Decides whether a system keeps up with a rate: the back-pressure rule on the queue's length.

The queue is looked at once per `acceptable` events made. Above `limit` the rate is not sustained;
below `acceptable` all is well; in between it is borne `limit / acceptable` times in a row.
Pure: the caller counts events and brings the lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import OptionError

#: What rounding to whole events may take from a ratio, and no ratio that is meant has.
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a queue may get, in events of one partition."""

    acceptable: int  # also the number of events between two looks
    limit: int
    oldest_seconds: float | None = None  # how long an event may wait; None: as long as it likes

    def __post_init__(self) -> None:
        if self.oldest_seconds is not None and self.oldest_seconds <= 0:
            msg = f"an event may wait {self.oldest_seconds} s: that must be above 0"
            raise OptionError(msg)
        if not 0 < self.acceptable <= self.limit:
            msg = (
                f"a queue of {self.acceptable:,} events is to be acceptable and one of "
                f"{self.limit:,} too long: the first must be above 0 and no more than the second"
            )
            raise OptionError(msg)

    @classmethod
    def of_rate(cls, rate: float, acceptable_seconds: float, limit_seconds: float) -> Limits:
        """Scale them to the rate of one partition."""
        acceptable = max(1, round(rate * acceptable_seconds))
        return cls(acceptable=acceptable, limit=max(acceptable, round(rate * limit_seconds)))

    @classmethod
    def of_age(cls, seconds: float) -> Limits:
        """Limit how long an event waits, and not how many do: for a rate that grows."""
        return cls(acceptable=2**62, limit=2**62, oldest_seconds=seconds)

    @property
    def patience(self) -> int:
        """How many looks in a row may find more than is acceptable."""
        # Both are rounded to whole events: twice as many may come out one short of it.
        return max(1, int(self.limit / self.acceptable + _ROUNDING))


class Pressure:
    """Follows one queue.

    >>> pressure = Pressure(Limits(acceptable=10, limit=30))
    >>> [pressure.look(length) for length in (5, 20, 20, 5, 20, 20, 20)]
    ['', '', '', '', '', '', 'above 10 for 3 looks in a row']
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._over = 0

    def look(self, length: int) -> str:
        """Take the queue's length; say why the rate is not sustained, empty if it is so far."""
        if length > self._limits.limit:
            return f"{length:,} events in the queue, above the limit of {self._limits.limit:,}"
        if length < self._limits.acceptable:
            self._over = 0
            return ""
        self._over += 1
        if self._over < self._limits.patience:
            return ""
        return f"above {self._limits.acceptable:,} for {self._over} looks in a row"
