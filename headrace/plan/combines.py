"""What columns know of a CombineFn: all that it does, or which values it passes over.

A combine is known as a whole if its accumulators are whole numbers, each of which goes its own way:
what a value brings to a number is an expression, and how two become one is a fold; or if it is
several known ones side by side. Frozen data; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

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


class Looks(Enum):
    """What of an accumulator says whether a value changes it."""

    WHOLE = "accumulator"  # its parts, of which some have types that columns know
    LEAST = "least"  # of Beam's Top: by what its last value is ranked; None while there is room


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippingCombine:
    """A CombineFn whose `add_input` leaves, for some values, the accumulator as it was.

    Such values need not be given to it. As a combine may take its values in any order, those that
    change nothing at the accumulator of the moment may all be taken first.
    """

    value: Shape  # of what is combined
    shape: Shape  # of what is looked at; what nobody asks about is OTHER
    changes: Lowered  # of (what is looked at, value): kept are pairs that may give another one
    looks: Looks = Looks.WHOLE

    def __str__(self) -> str:
        return f"gives the CombineFn nothing but values for which {self.changes.keeps}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralCombines:
    """Several CombineFns side by side, as Beam's `TupleCombineFn` has them; columns know each."""

    parts: tuple[LoweredCombine | SeveralCombines | None, ...]  # None: one that workers know

    def __str__(self) -> str:
        known = [str(part) for part in self.parts if part is not None]
        return "; ".join([f"{len(self.parts)} combines side by side", *known])


#: What the compiler found of a CombineFn.
Combined: TypeAlias = LoweredCombine | SkippingCombine | SeveralCombines
