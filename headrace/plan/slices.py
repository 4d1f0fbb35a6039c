"""Slices: how windows that overlap share what they have in common.

Sliding windows of equal size, one every period, cut time into slices of one period each. An element
belongs to one slice, and a window is a row of `count` slices; so one partial per slice is kept
instead of one per window.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of sliding windows. Times are microseconds."""

    size: int  # of a window
    period: int  # between the beginnings of two windows, and the length of a slice
    offset: int = 0  # windows begin at multiples of the period, moved by this

    def __post_init__(self) -> None:
        if self.period <= 0 or self.size <= self.period or self.size % self.period:
            msg = f"windows of {self.size} us every {self.period} us have no slices"
            raise PlanError(msg)

    @property
    def count(self) -> int:
        """How many slices a window has, and in how many windows a slice is."""
        return self.size // self.period

    def next_end(self, time: int) -> int:
        """Give the first end of a window after a time."""
        return time + self.period - (time - self.offset) % self.period
