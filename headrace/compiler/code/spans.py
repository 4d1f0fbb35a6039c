"""Numbers of outputs that are only known as a range. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OPEN = 1 << 30
"""Stands for "any number"."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high` outputs."""

    low: int
    high: int

    def then(self, other: Span) -> Span:
        """Both, one after the other."""
        return Span(min(self.low + other.low, OPEN), min(self.high + other.high, OPEN))

    def either(self, other: Span) -> Span:
        """One of the two."""
        return Span(min(self.low, other.low), max(self.high, other.high))

    def from_nothing(self) -> Span:
        """What may be there when it breaks off, wherever."""
        return Span(0, self.high)


NOTHING = Span(0, 0)
ONE = Span(1, 1)
ANY = Span(0, OPEN)


def either(a: Span | None, b: Span | None) -> Span | None:
    """One of the two; None cannot happen."""
    if a is None or b is None:
        return a or b
    return a.either(b)


def then(a: Span | None, b: Span | None) -> Span | None:
    """Both, one after the other; None cannot happen."""
    return None if a is None or b is None else a.then(b)


def summed(spans: Iterable[Span]) -> Span:
    """All of them."""
    total = NOTHING
    for span in spans:
        total = total.then(span)
    return total
