"""A combine whose accumulators are whole numbers, each of which goes its own way.

What a value brings to each number of an accumulator is an expression, and how two become one is a
fold. Frozen data; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.plan.expressions import Expression, Lowered
from headrace.plan.shapes import Shape


class Fold(Enum):
    """How two numbers of accumulators become one; the order makes no difference."""

    SUM = "sum"
    LEAST = "min"
    GREATEST = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredCombine:
    """A CombineFn as columns compute it."""

    value: Shape  # of what is combined
    shape: Shape  # of an accumulator; its leaves are whole numbers
    folds: tuple[Fold, ...]  # for each leaf
    feeds: tuple[Expression, ...]  # for each leaf, over the leaves of the value: what it brings
    seeds: tuple[int, ...]  # for each leaf, where it begins; zero for a sum
    extract: Lowered  # what an accumulator comes to

    def __str__(self) -> str:
        parts = [
            f"{fold.value} of {feed}" for fold, feed in zip(self.folds, self.feeds, strict=True)
        ]
        return f"{', '.join(parts)}; gives {self.extract}"
