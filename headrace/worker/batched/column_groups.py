"""Deals the rows of columns out to groups, and adds up whole numbers of a group exactly.

Takes keys as columns and the starts of windows, gives a number for each row. Knows no CombineFn.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.plan.shapes import ScalarKind
from headrace.worker.batched.column_batches import Micros, RowNumbers
from headrace.worker.batched.near_numbers import (
    Numbered,
    are_near,
    by_number,
    in_order_of_coming,
)
from headrace.worker.beam_types import Key
from headrace.worker.columns.column import ARROW, Column
from headrace.worker.columns.values import ColumnValues

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
#: Numbers below need no care when two of them become one.
_WIDEST = 1 << 62


class Groups(NamedTuple):
    """Rows with the same window and key have the same number."""

    numbers: RowNumbers  # for each row
    keys: list[Key]  # for each group
    starts: list[int] | None  # for each group; None: windows were not asked about

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.keys)


class GroupColumns(NamedTuple):
    """The same, while what stands for a group is a column still."""

    numbers: RowNumbers  # for each row
    keys: ColumnValues  # for each group
    starts: Micros | None  # for each group; None: windows were not asked about

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.keys)

    def listed(self) -> Groups:
        """Give keys and starts as Python has them."""
        starts = None if self.starts is None else self.starts.tolist()
        return Groups(self.numbers, self.keys.objects(), starts)


def group_columns(keys: ColumnValues, starts: Micros | None) -> GroupColumns:
    """Number the rows by key, and by window where windows differ, in the order of their coming.

    >>> from headrace.plan.shapes import TEXT
    >>> words = Column(ScalarKind.TEXT, pa.array(["b", "a", "b"]))
    >>> group_columns(ColumnValues(TEXT, [words]), None).listed()
    Groups(numbers=array([0, 1, 0]), keys=['b', 'a'], starts=None)
    """
    if len(keys.leaves) == 1 and not _is_near(keys.leaves[0]):
        return _by_one(keys, starts)
    codes = list(map(_codes, keys.leaves))
    if starts is not None:
        by_start, moments = _encoded_starts(starts)
        codes.append(_Codes(by_start, len(moments)))
    numbers, first = _numbered(_crossed(codes, len(keys)))
    of_groups = None if starts is None else starts[first]
    return GroupColumns(numbers, keys.take(first), of_groups)


def _is_near(column: Column) -> bool:
    """Whether whole numbers lie near each other."""
    if column.kind is not ScalarKind.INT or not len(column):
        return False
    return are_near(int(column.data.max()) - int(column.data.min()) + 1, len(column))


def _numbered(codes: _Codes) -> Numbered:
    """Number rows in the order of their coming."""
    if are_near(codes.width, len(codes.numbers)):
        return in_order_of_coming(codes.numbers, codes.width)
    numbers, _ = _encoded(pa.array(codes.numbers))
    return Numbered(numbers, _first_rows(numbers))


def _by_one(keys: ColumnValues, starts: Micros | None) -> GroupColumns:
    """Number rows whose keys are one column."""
    (column,) = keys.leaves
    by_key, distinct = _encoded(column.arrow())
    if starts is None:
        return GroupColumns(by_key, _like(keys, distinct), None)
    by_start, moments = _encoded_starts(starts)
    if len(moments) == 1:
        return GroupColumns(by_key, _like(keys, distinct), np.full(len(distinct), starts[0]))
    width = len(distinct)
    numbers, pairs = _encoded(pa.array(by_start * width + by_key))
    which_start, which_key = np.divmod(pairs.to_numpy(), width)
    of_groups = _like(keys, distinct.take(pa.array(which_key)))
    return GroupColumns(numbers, of_groups, moments[which_start])


class _Codes(NamedTuple):
    """Numbers from 0 that are equal where values are."""

    numbers: Numbers
    width: int  # all numbers are below


def _codes(column: Column) -> _Codes:
    """Give numbers for the values of a column; those of whole numbers near each other are free."""
    if column.kind is ScalarKind.INT and len(column):
        least, most = int(column.data.min()), int(column.data.max())
        if most - least < _WIDEST:
            return _Codes(column.data - least, most - least + 1)
    return _dense(column.arrow())


def _dense(array: pa.Array) -> _Codes:
    numbers, distinct = _encoded(array)
    return _Codes(numbers, max(len(distinct), 1))


def _crossed(codes: list[_Codes], size: int) -> _Codes:
    """Give one number for each row, equal where all its numbers are."""
    found, *others = codes or [_Codes(np.zeros(size, np.int64), 1)]
    for more in others:
        if found.width * more.width > _WIDEST:
            found = _dense(pa.array(found.numbers))
        if found.width * more.width > _WIDEST:
            more = _dense(pa.array(more.numbers))  # both are at most as many as the rows now
        found = _Codes(found.numbers * more.width + more.numbers, found.width * more.width)
    return found


def _first_rows(numbers: RowNumbers) -> RowNumbers:
    """Give the first row of each group; groups are numbered in the order of their coming."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))


def _like(keys: ColumnValues, distinct: pa.Array) -> ColumnValues:
    """Give keys of the same shape, of which an Arrow array holds the only leaf."""
    kind = keys.leaves[0].kind
    if kind is ScalarKind.INT:
        column = Column(kind, distinct.to_numpy())
    elif kind is ScalarKind.NONE:
        nothing = np.ones(len(distinct), np.bool_)
        column = Column(kind, nothing, nothing)
    else:
        column = Column(
            kind, distinct if distinct.type == ARROW[kind] else distinct.cast(ARROW[kind])
        )
    return ColumnValues(keys.shape, [column], len(distinct))


def _encoded_starts(starts: Micros) -> tuple[RowNumbers, Micros]:
    """Number windows by their starts, which are mostly those of their neighbours."""
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] != starts[:-1]]))
    if len(begins) * _LONG_RUN > len(starts):
        numbers, moments = _encoded(pa.array(starts))
        return numbers, moments.to_numpy()
    numbers, moments = _encoded(pa.array(starts[begins]))
    return np.repeat(numbers, np.diff(np.append(begins, len(starts)))), moments.to_numpy()


def _encoded(column: pa.Array) -> tuple[RowNumbers, pa.Array]:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), column[:1]
    found = column.dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), found.dictionary


def counts(numbers: RowNumbers, groups: int) -> list[int]:
    """Give how many rows each group has."""
    return np.bincount(numbers, minlength=groups).tolist()  # type: ignore[no-any-return]


def int_sums(values: Numbers, numbers: RowNumbers, groups: int) -> list[int]:
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


def _whole(values: Numbers, numbers: RowNumbers, groups: int) -> list[int]:
    """Add numbers whose sums are exact in a double."""
    sums = np.bincount(numbers, weights=values, minlength=groups)
    return sums.astype(np.int64).tolist()  # type: ignore[no-any-return]


def sums(values: Numbers, numbers: RowNumbers, groups: int) -> Numbers | None:
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


def least(values: Numbers, numbers: RowNumbers, groups: int) -> Numbers:
    """Give the least value of each group."""
    found = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(found, numbers, values)
    return found


def greatest(values: Numbers, numbers: RowNumbers, groups: int) -> Numbers:
    """Give the greatest value of each group."""
    found = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(found, numbers, values)
    return found


def int_least(values: Numbers, numbers: RowNumbers, groups: int) -> list[int]:
    """Give the least value of each group, as Python has it."""
    return least(values, numbers, groups).tolist()  # type: ignore[no-any-return]


def int_greatest(values: Numbers, numbers: RowNumbers, groups: int) -> list[int]:
    """Give the greatest value of each group, as Python has it."""
    return greatest(values, numbers, groups).tolist()  # type: ignore[no-any-return]


def in_groups(numbers: RowNumbers, groups: int) -> tuple[RowNumbers, list[int]]:
    """Give the places of all rows, group by group and in their order, and where each group ends."""
    ends = np.cumsum(np.bincount(numbers, minlength=groups))
    return by_number(numbers, groups), ends.tolist()
