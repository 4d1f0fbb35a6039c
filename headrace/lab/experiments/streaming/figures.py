"""What a streaming case gives: lines of samples, the bars they must clear, and what was wrong.

Judges, but measures nothing and prints nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.lab.experiments.micro.measure import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One system, or one size, within a case."""

    name: str
    unit: str
    samples: tuple[float, ...]  # never empty
    details: Mapping[str, float] = field(default_factory=dict)  # medians of its parts

    def __post_init__(self) -> None:
        if not self.samples:
            msg = f"{self.name}: no samples"
            raise ValueError(msg)

    @property
    def median(self) -> float:
        """The figure of the line."""
        return statistics.median(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A limit that a figure is held against."""

    what: str
    value: float
    limit: float
    at_most: bool  # else at least

    @property
    def cleared(self) -> bool:
        """Whether the figure is on the right side; on the limit it is."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a case went."""

    case: str
    what: str
    lines: tuple[Line, ...]
    bars: tuple[Bar, ...] = ()
    wrong: tuple[str, ...] = ()  # answers that were not the expected ones
    load: tuple[float, float] = (0.0, 0.0)  # of the machine over one minute, before and after

    @property
    def verdict(self) -> Verdict:
        """A wrong answer voids everything else."""
        if self.wrong:
            return Verdict.WRONG
        if not self.bars:
            return Verdict.NO_BAR
        return Verdict.OK if all(bar.cleared for bar in self.bars) else Verdict.MISSED


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0: all is well; 1: a bar was missed; 2: an answer was wrong."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if Verdict.WRONG in verdicts:
        return 2
    return 1 if Verdict.MISSED in verdicts else 0


def differences(
    name: str, found: Mapping[str, int], expected: Mapping[str, int]
) -> list[str]:
    """Say which numbers of an answer are not the expected ones.

    >>> differences("toy", {"rows": 3}, {"rows": 3, "groups": 1})
    ['toy: groups is None, right is 1']
    """
    names = sorted({*found, *expected})
    return [
        f"{name}: {each} is {found.get(each)}, right is {expected.get(each)}"
        for each in names
        if found.get(each) != expected.get(each)
    ]
