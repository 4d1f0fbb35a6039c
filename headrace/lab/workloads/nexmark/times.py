"""When NEXMark's events happen: the delays between them and the line of time they make.

Takes the settings of rates, gives times by event number. Beam counts in whole microseconds; in
nanoseconds the same steps are taken and none is cut to milliseconds, so that events stay apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.lab.data.randoms import I64

#: The last instant that fits into 64 bits of nanoseconds, in milliseconds: in the year 2262.
LAST_MS = (2**63 - 1) // 1_000_000
_SINE_STEPS = 10


def delays(settings: Any, *, per_second: int) -> tuple[int, ...]:
    """Give the time between two events of one generator, for each step of the rate's shape.

    Args:
        settings: NexmarkSettings.
        per_second: the unit: 1,000,000 for microseconds.
    """
    unit = per_second * (60 if settings.rate_unit == "PER_MINUTE" else 1)
    first, following = settings.first_event_rate, settings.next_event_rate
    if first == following:
        rates = [first]
    elif settings.rate_shape == "SQUARE":
        rates = [first, following]
    else:
        middle, swing = (first + following) / 2, (first - following) / 2
        turns = [2 * math.pi * step / _SINE_STEPS for step in range(_SINE_STEPS)]
        rates = [math.floor(middle + swing * math.cos(turn) + 0.5) for turn in turns]
    generators = settings.num_event_generators
    return tuple((unit + rate // 2) // rate * generators for rate in rates)


def step_seconds(settings: Any, steps: int) -> int:
    """Give the length of one of so many steps of the rate's shape."""
    return int(-(-settings.rate_period_sec // steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The line of time of one generator. All steps together make a cycle, which is repeated."""

    base_ms: int
    delays: tuple[int, ...]  # between two events, in ticks, for each step
    counts: tuple[int, ...]  # events of each step; nothing if there is only one delay
    ticks_per_ms: int  # 1,000: microseconds; 1,000,000: nanoseconds

    @classmethod
    def of(cls, settings: Any) -> Schedule:
        """Make the schedule that NexmarkSettings describe."""
        ticks_per_ms = 1_000_000 if settings.nanoseconds else 1_000
        found = delays(settings, per_second=ticks_per_ms * 1_000)
        ticks = step_seconds(settings, len(found)) * ticks_per_ms * 1_000
        return cls(
            base_ms=settings.base_time,
            delays=found,
            counts=tuple(ticks // delay for delay in found) if len(found) > 1 else (),
            ticks_per_ms=ticks_per_ms,
        )

    def delay(self, number: int) -> int:
        """Give the time between this event and the next, in ticks."""
        if not self.counts:
            return self.delays[0]
        rest = number % sum(self.counts)
        ends = np.cumsum(self.counts)
        return self.delays[int(np.searchsorted(ends, rest, side="right"))]

    def nanos(self, numbers: I64) -> I64:
        """Give the times of events, nanoseconds since 1970; cut to milliseconds they are Beam's."""
        scale = 1_000_000 // self.ticks_per_ms
        if not self.counts:
            return self.base_ms * 1_000_000 + numbers * (self.delays[0] * scale)
        cycle, rest = np.divmod(numbers, sum(self.counts))
        ends = np.cumsum(self.counts)
        step = np.searchsorted(ends, rest, side="right")
        inside = (rest - (ends - self.counts)[step]) * (np.array(self.delays) * scale)[step]
        lengths = self._step_nanos()
        starts = np.cumsum([0, *lengths[:-1]])
        return np.asarray(
            self.base_ms * 1_000_000 + cycle * sum(lengths) + starts[step] + inside
        )

    def _step_nanos(self) -> list[int]:
        """Give the length of each step; whole milliseconds if ticks are microseconds."""
        ticks = [count * delay for count, delay in zip(self.counts, self.delays, strict=True)]
        if self.ticks_per_ms == 1_000:
            return [each // 1_000 * 1_000_000 for each in ticks]
        return ticks

    def millis(self, numbers: I64) -> I64:
        """Give the times of events, milliseconds since 1970."""
        if not self.counts:  # a delay of many years leaves no room for nanoseconds
            return self.base_ms + numbers * self.delays[0] // self.ticks_per_ms
        return np.asarray(self.nanos(numbers) // 1_000_000)

    def nanos_at(self, number: int) -> int:
        """Give the time of one event."""
        return int(self.nanos(np.array([number]))[0])

    def last_number(self) -> int:
        """Give the greatest event number whose time fits into 64 bits of nanoseconds."""
        room = (LAST_MS - self.base_ms) * self.ticks_per_ms
        if not self.counts:
            return room // max(self.delays[0], 1)
        cycle = sum(self._step_nanos()) * self.ticks_per_ms // 1_000_000
        # A cycle of less than a millisecond cannot be: a step is a second, and has an event.
        return room // max(cycle, 1) * sum(self.counts)

    def fits(self, number: int) -> bool:
        """Whether the time of an event number can be worked out in 64 bits."""
        if not self.counts:
            return number * self.delays[0] < 2**62
        return number <= self.last_number()
