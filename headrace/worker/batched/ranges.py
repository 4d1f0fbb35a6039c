"""Ranges of Python as columns: their numbers, in chunks of a bounded size.

Takes ranges whose numbers fit into 64 bits. Knows no function of the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headrace.plan.shapes import INT, ScalarKind
from headrace.worker.batched.column_batches import COLUMN_ROWS
from headrace.worker.columns.column import Column, Positions
from headrace.worker.columns.values import ColumnValues

#: Fewer outputs than these are made sooner one by one.
LEAST_ROWS = 256
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class Chunk(NamedTuple):
    """Numbers of one large range, or of several small ones."""

    numbers: Positions
    origin: Positions  # for each number, which element's it is, from 0 for the first
    ends: Positions  # for each element, where its numbers end

    def of(self, place: int) -> tuple[int, int]:
        """Give where the numbers of an element begin and end."""
        return (int(self.ends[place - 1]) if place else 0), int(self.ends[place])


def is_long(numbers: range) -> bool:
    """Whether a range is worth columns, and fits into them."""
    ends = (numbers.start, numbers.stop, numbers.step)
    if not all(_LOWEST <= end <= _HIGHEST for end in ends):
        return False
    return abs(numbers.stop - numbers.start) < 1 << 62 and len(numbers) >= LEAST_ROWS


def parts_of(numbers: range) -> Iterator[range]:
    """Cut a range into parts of the size of a batch."""
    for start in range(0, len(numbers), COLUMN_ROWS):
        yield numbers[start : start + COLUMN_ROWS]


def column_parts(numbers: range) -> Iterator[ColumnValues]:
    """Give the numbers of a range as batches."""
    for part in parts_of(numbers):
        yield ColumnValues(INT, [Column(ScalarKind.INT, chunk_of([part]).numbers)])


def chunk_of(ranges: Sequence[range]) -> Chunk:
    """Give the numbers of ranges, one after the other."""
    sizes = np.array([len(r) for r in ranges], np.int64)
    ends = np.cumsum(sizes)
    # What is multiplied may wrap around; each sum is a number of the range, so it is right again.
    numbers = np.arange(ends[-1])
    if len(ranges) == 1:
        origin = np.zeros(len(numbers), np.int64)
        if ranges[0].step != 1:
            numbers *= ranges[0].step
        numbers += ranges[0].start
        return Chunk(numbers, origin, ends)
    origin = np.repeat(np.arange(len(ranges)), sizes)
    numbers -= (ends - sizes)[origin]
    numbers *= np.array([r.step for r in ranges], np.int64)[origin]
    numbers += np.array([r.start for r in ranges], np.int64)[origin]
    return Chunk(numbers, origin, ends)
