"""What a streaming case gives: lines of samples, the bars they must clear, and what was wrong.

Judges, but measures nothing and prints nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.lab.ending import Ending, of_bars
from headrace.lab.results.summary import Better, Figure


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
class CaseResult:
    """How a case went."""

    case: str
    what: str
    lines: tuple[Line, ...]
    bars: tuple[Bar, ...] = ()
    wrong: tuple[str, ...] = ()  # answers that were not the expected ones
    load: tuple[float, float] = (0.0, 0.0)  # of the machine over one minute, before and after

    @property
    def verdict(self) -> Ending:
        """A wrong answer voids everything else."""
        return of_bars((bar.cleared for bar in self.bars), wrong=bool(self.wrong))

    def figures(self) -> list[Figure]:
        """Give the lines in the lab's one form; what grows with time is better low."""
        return [
            Figure.of_samples(
                line.name, "streaming", self.case, line.unit,
                Better.HIGHER if line.unit.endswith("/s") else Better.LOWER, line.samples,
                "; ".join(self.wrong),
            )
            for line in self.lines
        ]


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
