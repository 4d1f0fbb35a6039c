"""Decides when each event of a run is to be sent: the schedule of an open loop.

An event is due at its time whether or not anybody has taken the earlier ones. Times are seconds
after the start. Pure arithmetic: reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.errors import OptionError

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time with one rate."""

    seconds: float
    rate: float  # events per second, of all partitions together

    def __post_init__(self) -> None:
        if not (0 < self.seconds < float("inf") and 0 < self.rate < float("inf")):
            msg = f"a phase of {self.seconds} s at {self.rate} events/s: both must be above 0"
            raise OptionError(msg)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Phases, one after the other.

    >>> spike = Schedule((Phase(2, 10), Phase(1, 100), Phase(2, 10)))
    >>> spike.events, spike.seconds
    (140, 5.0)
    >>> spike.due(20), spike.due(70), spike.made_by(2.5)
    (2.0, 2.5, 71)
    """

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases:
            msg = "a schedule needs a phase"
            raise OptionError(msg)
        if self.events < 1:
            msg = f"a schedule of {self.seconds} s without an event: give it more time or rate"
            raise OptionError(msg)

    @classmethod
    def steady(cls, rate: float, seconds: float) -> Schedule:
        """Make the schedule of one rate."""
        return cls((Phase(seconds, rate),))

    @classmethod
    def read(cls, pairs: Iterable[Sequence[float]]) -> Schedule:
        """Make it of pairs (seconds, rate), as `pairs` gives them."""
        return cls(tuple(Phase(float(seconds), float(rate)) for seconds, rate in pairs))

    def pairs(self) -> list[list[float]]:
        """Give the phases as plain lists, for a message or a file."""
        return [[phase.seconds, phase.rate] for phase in self.phases]

    def cut(self, events: int) -> Schedule:
        """Let it end with so many events.

        >>> Schedule((Phase(2, 10), Phase(1, 100))).cut(70).pairs()
        [[2, 10], [0.5, 100]]
        """
        left, phases = float(events), []
        for phase in self.phases:
            own = min(left, phase.seconds * phase.rate)
            if own > 1e-6:
                seconds = phase.seconds if own < left else own / phase.rate
                phases.append(Phase(seconds, phase.rate))
            left -= own
        return Schedule(tuple(phases))

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return float(sum(phase.seconds for phase in self.phases))

    @property
    def events(self) -> int:
        """How many events are sent in all."""
        # A product such as 0.1 s x 10 /s may fall short of the whole number by a rounding.
        return int(sum(phase.seconds * phase.rate for phase in self.phases) + 1e-6)

    def _corners(self) -> tuple[F64, F64]:
        """Give the ends of the phases, as counts of events and as times."""
        seconds = np.cumsum([0.0, *(phase.seconds for phase in self.phases)])
        counts = np.cumsum([0.0, *(phase.seconds * phase.rate for phase in self.phases)])
        return counts, seconds

    def due(self, number: int) -> float:
        """Give the time at which an event is to be sent."""
        return float(self.due_all(np.array([number]))[0])

    def due_all(self, numbers: I64) -> F64:
        """Give the times at which events are to be sent."""
        counts, seconds = self._corners()
        return np.asarray(np.interp(numbers, counts, seconds))

    def newest_at(self, seconds: F64) -> I64:
        """Give the number of the newest event that is due by each time; the first one before."""
        counts, ends = self._corners()
        numbers = np.floor(np.interp(seconds, ends, counts) + 1e-6).astype(np.int64)
        return np.minimum(numbers, self.events - 1)

    def rates_at(self, seconds: F64) -> F64:
        """Give the rate at each time; of times outside it is not a number.

        >>> spike = Schedule((Phase(2, 10), Phase(1, 100)))
        >>> spike.rates_at(np.array([0.0, 2.0, 2.9, 3.1])).tolist()
        [10.0, 100.0, 100.0, nan]
        """
        _, ends = self._corners()
        rates = np.array([np.nan, *(phase.rate for phase in self.phases), np.nan])
        return np.asarray(rates[np.searchsorted(ends, seconds, side="right")])

    def made_by(self, seconds: float) -> int:
        """Give how many events are due by a time: those up to it, and the one at it."""
        if seconds < 0:
            return 0
        counts, ends = self._corners()
        # The slack makes an event count at the very time that `due` gives for it.
        return min(self.events, int(np.interp(seconds, ends, counts) + 1e-6) + 1)
