"""Who is ahead of whom, in which question and figure: the verdict of a run, as data.

Takes a summary, gives a relation for each question, figure and peer. Two figures whose intervals
meet decide nothing, and neither do two that were measured once and lie within 15 % of each other:
a run's own interval knows nothing of how far the next run would lie from it. One that is void
decides nothing either, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from headrace.lab.results.summary import REFUSED, Better, Figure, Guarantee, Summary

#: How far figures lie apart, at least, that decide something though one was measured once.
ONCE = 1.15
#: The system whose user reads a verdict, unless a run is without it.
OURS = "headrace"


class Relation(Enum):
    """How one system stands to another."""

    AHEAD = "ahead"
    BEHIND = "behind"
    LEVEL = "not told apart"  # the intervals meet
    NEAR = "not told apart: measured once, within 15 %"
    OPEN = "not known"  # one of the figures is void


#: In which nobody is ahead.
UNDECIDED = (Relation.LEVEL, Relation.NEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class What:
    """A figure that a verdict is about."""

    experiment: str
    name: str
    title: str


#: In the order in which somebody who must choose asks for them.
RATE = What(experiment="sustainable", name="rate", title="events a second that it sustains")
LATENCY = What(experiment="latency", name="p99", title="age of results, p99")
CPU = What(experiment="cost", name="cpu", title="processor seconds per million events")
MEMORY = What(experiment="cost", name="peak memory", title="memory at its peak")
#: Of systems that shared a JVM in a run. It is none of theirs alone, so it is not compared.
SHARED_MEMORY = What(
    experiment="cost", name="peak memory with a shared JVM", title="memory at its peak, JVM shared"
)
RECOVERY = What(experiment="fault", name="recovery", title="seconds after a killed worker")
#: The experiment of figures that say how latency grows with the load.
BY_RATE = "latency by rate"
WHATS = (RATE, LATENCY, CPU, MEMORY, RECOVERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of two systems that were asked the same."""

    question: str
    what: What
    ours: Figure
    theirs: Figure
    relation: Relation

    @property
    def times(self) -> float | None:
        """How many times as good ours is; None where one of them is not known, or is 0."""
        if not self.ours.value or not self.theirs.value:
            return None
        ratio = self.ours.value / self.theirs.value
        return ratio if self.ours.better is Better.HIGHER else 1 / ratio

    @property
    def undecided(self) -> str:
        """Say in brackets that nothing is decided; empty where something is."""
        return f" ({self.relation.value})" if self.relation in UNDECIDED else ""


def questions_of(summary: Summary) -> list[str]:
    """Give the questions of a run, in its order."""
    return list(dict.fromkeys(figure.question for figure in summary.figures))


def figure_of(summary: Summary, system: str, question: str, what: What) -> Figure | None:
    """Give one figure; None if the run has none."""
    key = (system, question, what.experiment, what.name)
    return next((figure for figure in summary.figures if figure.key == key), None)


def measured(summary: Summary) -> list[str]:
    """Give the systems that were there."""
    return [system.name for system in summary.systems if not system.absent]


def compared(summary: Summary, ours: str = OURS) -> tuple[Compared, ...]:
    """Hold one system against every other."""
    return tuple(_compared(summary, ours))


def _compared(summary: Summary, ours: str) -> Iterator[Compared]:
    for question in questions_of(summary):
        for what in WHATS:
            own = figure_of(summary, ours, question, what)
            for peer in measured(summary):
                other = figure_of(summary, peer, question, what)
                if peer != ours and own is not None and other is not None:
                    yield Compared(
                        question=question, what=what, ours=own, theirs=other,
                        relation=relation(own, other),
                    )


def relation(ours: Figure, theirs: Figure) -> Relation:
    """Say how ours stands to theirs."""
    if ours.low is None or theirs.low is None:
        return Relation.OPEN
    low, their_low = ours.low, theirs.low
    high, their_high = (inf if each.high is None else each.high for each in (ours, theirs))
    if low <= their_high and their_low <= high:
        return Relation.LEVEL
    if _once_and_near(ours, theirs):
        return Relation.NEAR
    is_more = low > their_high
    return Relation.AHEAD if is_more == (ours.better is Better.HIGHER) else Relation.BEHIND


def _once_and_near(ours: Figure, theirs: Figure) -> bool:
    """Say whether one was measured once, and the other lies too near for that to decide."""
    assert ours.value is not None and theirs.value is not None
    less, more = sorted((ours.value, theirs.value))
    return min(len(ours.repeats), len(theirs.repeats)) < 2 and more <= less * ONCE


def leads(figure: Figure | None, top: Figure | None) -> bool:
    """Say whether a figure is the best one, or is not told apart from it."""
    if figure is None or top is None:
        return False
    return figure is top or relation(figure, top) in UNDECIDED


def best(summary: Summary, question: str, what: What) -> Figure | None:
    """Give the best figure of a question; None if none counts."""
    found = [
        figure for name in measured(summary)
        if (figure := figure_of(summary, name, question, what)) is not None
        and figure.value is not None
    ]
    if not found:
        return None
    sign = 1 if found[0].better is Better.HIGHER else -1
    return max(found, key=lambda figure: sign * (figure.value or 0.0))


def refusing(summary: Summary, question: str) -> list[str]:
    """Give the systems that cannot be asked a question."""
    return [
        name for name in measured(summary)
        if (figure := figure_of(summary, name, question, RATE)) is not None
        and figure.void.startswith(REFUSED)
    ]


def guarantees_of(summary: Summary, system: str) -> Sequence[Guarantee]:
    """Give what the run has shown of a system's promises."""
    return [each for each in summary.guarantees if each.system == system]


def least(figure: Figure) -> str:
    """Give the words for a figure that has no upper bound: no more could be sent to the system."""
    is_least = figure.better is Better.HIGHER and figure.value is not None and figure.high is None
    return "at least " if is_least else ""


def short(value: float, unit: str) -> str:
    """Write a figure as people say it.

    >>> short(1_283_400, "events/s"), short(0.1234, "s"), short(2.3e9, "bytes")
    ('1.28 M events/s', '0.12 s', '2,193 MiB')
    """
    if unit == "bytes":
        return f"{value / 2**20:,.0f} MiB"
    if unit == "events/s":
        return f"{counted(value)} events/s"
    return f"{value:,.2f} {unit}" if value < 100 else f"{value:,.0f} {unit}"


def counted(value: float) -> str:
    """Write a number of events with three digits.

    >>> counted(850), counted(20_400), counted(905_120), counted(1_283_400)
    ('850', '20.4 K', '905 K', '1.28 M')
    """
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value / 1e3:.3g} K" if value >= 1e3 else f"{value:.0f}"


def multiple(times: float) -> str:
    """Write how many times as good something is.

    >>> multiple(0.714), multiple(1.26), multiple(31.8)
    ('0.71x', '1.3x', '32x')
    """
    return f"{times:.2f}x" if times < 1 else f"{times:.2g}x" if times < 100 else f"{times:,.0f}x"
