"""Event times of evenly paced streams, in order or shuffled inside groups.

Event `number` arrives as the number-th; its time is that of its *place*, which differs from the
number inside a group of `group` events: a fixed permutation, so nothing is older than its group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lab.data.randoms import I64

NANOS = 1_000_000_000
#: A prime, so that multiplying by it permutes the numbers below any size that is no multiple of it.
SPREAD = 953


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When events happen.

    Args:
        base_ms: time of the first place, milliseconds since 1970.
        rate: places per second of event time.
        group: events that may arrive in each other's place; 1: in order.
    """

    base_ms: int
    rate: int
    group: int = 1

    def places(self, numbers: I64) -> I64:
        """Give the places of events."""
        group = self.group
        if group == 1:
            return numbers
        first = numbers // group * group
        if group % SPREAD and SPREAD % group > 1:
            return np.asarray(first + numbers * SPREAD % group)
        # The product would leave all where they are, or put many into one place: turn them round.
        return np.asarray(first + group - 1 - numbers % group)

    def nanos(self, numbers: I64) -> I64:
        """Give the times of events, nanoseconds since 1970, rounded down; distinct up to 1 G/s."""
        places = self.places(numbers)
        whole, rest = np.divmod(places, self.rate)  # whole seconds apart: no product overflows
        return np.asarray(self.base_ms * 1_000_000 + whole * NANOS + rest * NANOS // self.rate)

    def micros_of_place(self, place: int) -> int:
        """Give the time of a place, microseconds since 1970, rounded down."""
        return (self.base_ms * 1_000_000 + place * NANOS // self.rate) // 1_000

    def watermark(self, number: int, events: int, grain: int = 1) -> int:
        """Give a time in microseconds that neither this event nor a later one precedes.

        Where there is no such event, it is past the last place that one of `events` can have.
        Times are cut to multiples of `grain`.
        """
        group = self.group
        mark = self.micros_of_place(number // group * group) // grain * grain
        if number < events:
            return mark
        last = (events - 1) // group * group + group - 1
        return max(mark, (self.micros_of_place(last) // grain + 1) * grain)

    def due(self, number: int) -> int:
        """Microseconds between the first arrival and this one, at the same pace as event time."""
        return number * 1_000_000 // self.rate
