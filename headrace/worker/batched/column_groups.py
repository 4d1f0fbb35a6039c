"""Deals the rows of columns out to groups, and adds up whole numbers of a group exactly.

Takes a column of keys and the starts of windows, gives a number for each row. Knows no CombineFn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.worker.batched.column_batches import Micros, Places
from headrace.worker.beam_types import Key

#: So many halves of 64 bits can be added in a double without loss: 2**53 / 2**32.
MAX_ROWS = 1 << 21
#: Whole numbers up to this one are exact in a double.
_EXACT = 1 << 53
_HALF_BITS = 32
_LOW_HALF = (1 << _HALF_BITS) - 1
#: Radix sort, ten times as fast, is there for numbers of 16 bits.
_SHORT = 1 << 16


class Groups(NamedTuple):
    """Rows with the same window and key have the same number."""

    numbers: Places  # for each row
    keys: list[Key]  # for each group
    starts: list[int] | None  # for each group; None: windows were not asked about

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.keys)


def groups_of(keys: pa.Array, starts: Micros | None) -> Groups:
    """Number the rows by key, and by window where windows differ, in the order of their coming.

    >>> groups_of(pa.array(["b", "a", "b"]), None)
    Groups(numbers=array([0, 1, 0]), keys=['b', 'a'], starts=None)
    """
    by_key, distinct = _encoded(keys)
    if starts is None:
        return Groups(by_key, distinct.to_pylist(), None)
    by_start, moments = _encoded(pa.array(starts))
    if len(moments) == 1:
        return Groups(by_key, distinct.to_pylist(), moments.to_pylist() * len(distinct))
    width = len(distinct)
    numbers, pairs = _encoded(pa.array(by_start * width + by_key))
    which_start, which_key = np.divmod(pairs.to_numpy(), width)
    return Groups(
        numbers,
        distinct.take(pa.array(which_key)).to_pylist(),
        moments.take(pa.array(which_start)).to_pylist(),
    )


def _encoded(column: pa.Array) -> tuple[Places, pa.Array]:
    found = column.dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), found.dictionary


def counts(numbers: Places, groups: int) -> list[int]:
    """Give how many rows each group has."""
    return np.bincount(numbers, minlength=groups).tolist()  # type: ignore[no-any-return]


def int_sums(values: NDArray[np.int64], numbers: Places, groups: int) -> list[int]:
    """Give the sum of each group as Python gives it: a sum may need more than 64 bits."""
    if len(values) > MAX_ROWS:
        msg = f"{len(values)} rows are too many to be added at once; the most is {MAX_ROWS}"
        raise ValueError(msg)
    greatest = max(abs(int(values.max())), abs(int(values.min())))
    if greatest * len(values) < _EXACT:
        return _whole(values, numbers, groups)
    low = _whole(values & _LOW_HALF, numbers, groups)
    high = _whole(values >> _HALF_BITS, numbers, groups)
    return [(h << _HALF_BITS) + lo for h, lo in zip(high, low, strict=True)]


def _whole(values: NDArray[np.int64], numbers: Places, groups: int) -> list[int]:
    """Add numbers whose sums are exact in a double."""
    sums = np.bincount(numbers, weights=values, minlength=groups)
    return sums.astype(np.int64).tolist()  # type: ignore[no-any-return]


def int_least(values: NDArray[np.int64], numbers: Places, groups: int) -> list[int]:
    """Give the least value of each group."""
    found = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(found, numbers, values)
    return found.tolist()


def int_greatest(values: NDArray[np.int64], numbers: Places, groups: int) -> list[int]:
    """Give the greatest value of each group."""
    found = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(found, numbers, values)
    return found.tolist()


def in_groups(numbers: Places, groups: int) -> tuple[Places, list[int]]:
    """Give the places of all rows, group by group and in their order, and where each group ends."""
    short = numbers.astype(np.uint16) if groups <= _SHORT else numbers
    ends = np.cumsum(np.bincount(numbers, minlength=groups))
    return np.argsort(short, kind="stable"), ends.tolist()
