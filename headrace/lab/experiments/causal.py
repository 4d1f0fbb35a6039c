"""Which step, made faster, would make the whole faster, and by how much?

A step is made faster virtually: all others are slowed. Three rates are searched: as it is, with all
steps slowed, with all but one slowed. Let P be the time of an event at such a rate, and k how many
times as fast the step is to be. Then an event would take

    P(as it is) - (P(all slowed) - P(all others slowed)) / k

Where the steps run one after the other, the bracket is (k - 1) times the step's own time, whatever
else an event takes that no step does. Where they run side by side and nothing else counts, all
slowed is k times as it is, so that the time of the others slowed is left, counted in their slower
time. Where the system knows how to make the step really faster, a rerun says what that gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from headrace.errors import OptionError
from headrace.lab.experiments.sustainable import Sustainable
from headrace.lab.record.trial import PacedBench, SeriesBench
from headrace.lab.statistics.intervals import Interval

#: Searches the rate of a bench from about this one on; None: as the spec says.
Searched = Callable[[SeriesBench, float | None], Sustainable]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """What a faster step would give: gains of the sustainable rate, 0.18 is 18 % more."""

    step: str
    times: float  # as fast
    gain: Interval | None  # None: void
    rerun: Interval | None  # with the step really faster; None: void, or nobody knows how
    void: str = ""
    unconfirmed: str = ""  # why there was no rerun that counts


def causal_profile(
    bench: PacedBench, searched: Searched, steps: Sequence[str], *, times: float, precision: float,
    told: Callable[[str], None] = lambda _text: None,
) -> tuple[SpeedUp, ...]:
    """Say, for each step, what the rate would be if it were so many times as fast.

    Args:
        bench: of the system.
        searched: finds a rate.
        steps: the system's names of its steps, all that take time.
        times: as fast.
        precision: what a search leaves open.
        told: hears what is done, a line each.

    Raises:
        OptionError: the system cannot be told this.
    """
    if times <= 1:
        msg = f"a step {times} times as fast is no faster"
        raise OptionError(msg)
    if not steps:
        msg = "the causal profile needs the names of the steps: steps = [...]"
        raise OptionError(msg)
    all_slow = bench.paced(dict.fromkeys(steps, times))
    told("as it is")
    base = searched(bench, None)
    if _trouble(base):
        return tuple(_nothing(step, times, _trouble(base)) for step in steps)
    told("with all steps slowed")
    slow = searched(all_slow, base.rate / times)
    found = []
    for step in steps:
        told(f"with all steps slowed but {step}")
        others = bench.paced({other: times for other in steps if other != step})
        virtual = searched(others, (slow.rate or base.rate / times) * 1.1)
        void = _trouble(slow) or _trouble(virtual)
        gain = None if void else gained(base.rate, slow.rate, virtual.rate, times, precision)
        if gain is None:
            void = void or "the rates do not fit together: precision is too coarse"
            found.append(_nothing(step, times, void))
            continue
        found.append(_confirmed(bench, searched, step, times, base.rate, gain, precision, told))
    return tuple(found)


def gained(
    base: float, slow: float, virtual: float, times: float, precision: float
) -> Interval | None:
    """Give the gain of a step from three rates; None if there is no such step.

    >>> gained(100.0, 50.0, 80.0, 2.0, 0.0).value  # one after the other: three quarters of it
    0.6
    """
    rates = (base, slow, virtual)
    # What a search has found is sustained, and up to its precision more may be.
    ends = [
        _gain(*(rate * more for rate, more in zip(rates, each, strict=True)), times=times)
        for each in product((1.0, 1 + precision), repeat=3)
    ]
    value = _gain(*rates, times=times)
    if value is None:
        return None
    known = [end for end in ends if end is not None]
    high = max(known) if len(known) == len(ends) else float("inf")
    return Interval(value=value, low=min(known), high=high, count=1)


def _gain(base: float, slow: float, virtual: float, *, times: float) -> float | None:
    left = 1 / base - (1 / slow - 1 / virtual) / times
    return round(1 / left / base - 1, 9) if left > 0 else None


def _confirmed(
    bench: PacedBench, searched: Searched, step: str, times: float, base: float, gain: Interval,
    precision: float, told: Callable[[str], None],
) -> SpeedUp:
    try:
        faster = bench.paced({step: 1 / times})
    except OptionError as unknown:
        return SpeedUp(step=step, times=times, gain=gain, rerun=None, unconfirmed=str(unknown))
    told(f"with {step} really faster")
    again = searched(faster, base * (1 + gain.value))
    if _trouble(again):
        return SpeedUp(
            step=step, times=times, gain=gain, rerun=None, unconfirmed=_trouble(again)
        )
    ratio = again.rate / base
    rerun = Interval(
        value=ratio - 1, low=ratio / (1 + precision) - 1, high=ratio * (1 + precision) - 1, count=1
    )
    return SpeedUp(step=step, times=times, gain=gain, rerun=rerun)


def _nothing(step: str, times: float, void: str) -> SpeedUp:
    return SpeedUp(step=step, times=times, gain=None, rerun=None, void=void)


def _trouble(found: Sustainable) -> str:
    return found.void or ("" if found.rate else "no rate was sustained")
