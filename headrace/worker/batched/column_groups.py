"""Deals the rows of columns out to groups, and adds up whole numbers of a group exactly.

Takes a column of keys and the starts of windows, gives a number for each row. Knows no CombineFn.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.worker.batched.column_batches import Micros, Places
from headrace.worker.beam_types import Key

Numbers: TypeAlias = NDArray[np.int64]

#: So many halves of 64 bits can be added in a double without loss: 2**53 / 2**32.
MAX_ROWS = 1 << 21
#: Whole numbers up to this one are exact in a double.
_EXACT = 1 << 53
#: What 64 bits hold, less one.
_MOST = (1 << 63) - 1
_HALF_BITS = 32
_LOW_HALF = (1 << _HALF_BITS) - 1
#: Rows of one window in a row from which it pays to number the window once for all of them.
_LONG_RUN = 16
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


class GroupColumns(NamedTuple):
    """The same, while what stands for a group is a column still."""

    numbers: Places  # for each row
    keys: pa.Array  # for each group
    starts: Micros | None  # for each group; None: windows were not asked about

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.keys)

    def listed(self) -> Groups:
        """Give keys and starts as Python has them."""
        starts = None if self.starts is None else self.starts.tolist()
        return Groups(self.numbers, self.keys.to_pylist(), starts)


def group_columns(keys: pa.Array, starts: Micros | None) -> GroupColumns:
    """Number the rows by key, and by window where windows differ, in the order of their coming.

    >>> group_columns(pa.array(["b", "a", "b"]), None).listed()
    Groups(numbers=array([0, 1, 0]), keys=['b', 'a'], starts=None)
    """
    by_key, distinct = _encoded(keys)
    if starts is None:
        return GroupColumns(by_key, distinct, None)
    by_start, moments = _encoded_starts(starts)
    if len(moments) == 1:
        return GroupColumns(by_key, distinct, np.full(len(distinct), starts[0]))
    width = len(distinct)
    numbers, pairs = _encoded(pa.array(by_start * width + by_key))
    which_start, which_key = np.divmod(pairs.to_numpy(), width)
    return GroupColumns(numbers, distinct.take(pa.array(which_key)), moments[which_start])


def _encoded_starts(starts: Micros) -> tuple[Places, Micros]:
    """Number windows by their starts, which are mostly those of their neighbours."""
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] != starts[:-1]]))
    if len(begins) * _LONG_RUN > len(starts):
        numbers, moments = _encoded(pa.array(starts))
        return numbers, moments.to_numpy()
    numbers, moments = _encoded(pa.array(starts[begins]))
    return np.repeat(numbers, np.diff(np.append(begins, len(starts)))), moments.to_numpy()


def _encoded(column: pa.Array) -> tuple[Places, pa.Array]:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), column[:1]
    found = column.dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), found.dictionary


def counts(numbers: Places, groups: int) -> list[int]:
    """Give how many rows each group has."""
    return np.bincount(numbers, minlength=groups).tolist()  # type: ignore[no-any-return]


def int_sums(values: Numbers, numbers: Places, groups: int) -> list[int]:
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


def _whole(values: Numbers, numbers: Places, groups: int) -> list[int]:
    """Add numbers whose sums are exact in a double."""
    sums = np.bincount(numbers, weights=values, minlength=groups)
    return sums.astype(np.int64).tolist()  # type: ignore[no-any-return]


def sums(values: Numbers, numbers: Places, groups: int) -> Numbers | None:
    """Give the sum of each group; None if one might need more than 64 bits.

    >>> sums(np.array([1, 2, 3]), np.array([0, 1, 0]), 2)
    array([4, 2])
    """
    greatest = max(abs(int(values.max())), abs(int(values.min())))
    bound = greatest * len(values)
    if bound < _EXACT:
        return np.bincount(numbers, weights=values, minlength=groups).astype(np.int64)
    if bound >= _MOST:
        return None
    found = np.zeros(groups, np.int64)
    np.add.at(found, numbers, values)
    return found


def least(values: Numbers, numbers: Places, groups: int) -> Numbers:
    """Give the least value of each group."""
    found = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(found, numbers, values)
    return found


def greatest(values: Numbers, numbers: Places, groups: int) -> Numbers:
    """Give the greatest value of each group."""
    found = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(found, numbers, values)
    return found


def int_least(values: Numbers, numbers: Places, groups: int) -> list[int]:
    """Give the least value of each group, as Python has it."""
    return least(values, numbers, groups).tolist()  # type: ignore[no-any-return]


def int_greatest(values: Numbers, numbers: Places, groups: int) -> list[int]:
    """Give the greatest value of each group, as Python has it."""
    return greatest(values, numbers, groups).tolist()  # type: ignore[no-any-return]


def in_groups(numbers: Places, groups: int) -> tuple[Places, list[int]]:
    """Give the places of all rows, group by group and in their order, and where each group ends."""
    short = numbers.astype(np.uint16) if groups <= _SHORT else numbers
    ends = np.cumsum(np.bincount(numbers, minlength=groups))
    return np.argsort(short, kind="stable"), ends.tolist()
