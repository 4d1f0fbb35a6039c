"""Deals rows out by whole numbers that lie near each other: by looking up, without hashing.

Takes a number from 0 for each row, and how many numbers there can be. Gives the rows' groups in the
order of their coming, and the rows group by group.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]

#: A table that has room for every number may have so many places for each row, and so many anyway.
_CELLS_PER_ROW = 4
_FEW_CELLS = 1 << 14
#: Radix sort, ten times as fast, is there for numbers of 16 bits.
_SHORT_BITS = 16
_SHORT = 1 << _SHORT_BITS
#: Rows that 32 bits can number.
_MOST_ROWS = (1 << 31) - 1


class Numbered(NamedTuple):
    """Rows with the same number, by groups that are numbered in the order of their coming."""

    groups: Numbers  # for each row
    first: Numbers  # for each group, its first row


def are_near(width: int, rows: int) -> bool:
    """Whether numbers below `width` are worth a table."""
    return width <= max(_FEW_CELLS, _CELLS_PER_ROW * rows)


def in_order_of_coming(numbers: Numbers, width: int) -> Numbered:
    """Number groups by their first rows.

    >>> in_order_of_coming(np.array([7, 3, 7]), 8)
    Numbered(groups=array([0, 1, 0]), first=array([0, 1]))
    """
    # Half as many bytes are twice as many places in the cache. What is not written is not read.
    kind = np.int32 if len(numbers) <= _MOST_ROWS else np.int64
    table, rows = np.empty(width, kind), np.arange(len(numbers), dtype=kind)
    # Of rows with one number NumPy writes the last, which is the first here. If it should ever
    # write another, the groups are the same still, and only their order is another.
    table[numbers[::-1]] = rows[::-1]
    first = np.flatnonzero(table.take(numbers) == rows)
    table[numbers[first]] = rows[: len(first)]
    return Numbered(table.take(numbers).astype(np.int64), first)


def by_number(numbers: Numbers, width: int) -> Numbers:
    """Give the places of all rows, number by number and in their order."""
    if width <= _SHORT:
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    if width > 1 << (2 * _SHORT_BITS):
        return np.argsort(numbers, kind="stable")
    by_low = np.argsort(numbers.astype(np.uint16), kind="stable")  # its lower bits
    high = (numbers >> _SHORT_BITS).astype(np.uint16)
    return by_low[np.argsort(high[by_low], kind="stable")]
