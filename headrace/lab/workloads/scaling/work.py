"""The work that the scalability graphs do on an element, and how many elements get any."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from headrace.lab.workloads.scaling.model import Item

FACTOR = 48_271
#: Values stay below 2**31, so that a product fits 64 bits in every system.
LOW_BITS = 2**31 - 1


def work_on(value: int, times: int) -> int:
    """Multiply so many times, and keep the low bits.

    >>> work_on(3, 0), work_on(3, 1), work_on(2**31 - 1, 1)
    (3, 144813, 2147435377)
    """
    for _ in range(times):
        value = value * FACTOR & LOW_BITS
    return value


def is_chosen(item: Item, selectivity: int) -> bool:
    """Whether an element is worked on: every so-manieth by its number, so that order is free."""
    return item.number % selectivity == 0


class WorkedSum(beam.CombineFn):  # type: ignore[misc]
    """Works on each number, counts and adds.

    Args:
        times: multiplications per number.
    """

    def __init__(self, times: int) -> None:
        self._times = times

    def create_accumulator(self) -> tuple[int, int]:
        """Give nothing."""
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], value: int) -> tuple[int, int]:
        """Work on one number and add it."""
        count, total = accumulator
        return count + 1, total + work_on(value, self._times)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Add counts and totals."""
        count = total = 0
        for more, added in accumulators:
            count += more
            total += added
        return count, total

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give count and total."""
        return accumulator
