"""What an expression is on the rows of a batch: an array or one value for all, and two masks.

`missing` marks rows whose value is None, `bad` those for which the array could differ from what
Python gives: their result has to come from the user's own function. What stands in the array at a
row that is marked means nothing. Masks are never changed once they are made.
"""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.plan.shapes import ScalarKind
from headrace.worker.beam_types import Value
from headrace.worker.columns.column import ARROW, DTYPES, Column, Data, Mask

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Range: TypeAlias = tuple[int, int]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
EXACT = 2**53  # every int up to here is a float too
_ARROW_KINDS = (ScalarKind.TEXT, ScalarKind.BYTES)


class Vector:
    """The values of an expression.

    Args:
        kind: of every value.
        data: an array, or one value that stands for all rows.
        missing: rows whose value is None; None: there are none.
        bad: rows that Python has to compute; None: there are none.
        constant: whether `data` is one value for all.
        bounds: between which values of an int array lie, if that is known.
    """

    __slots__ = ("_bounds", "bad", "constant", "data", "kind", "missing")

    def __init__(
        self,
        kind: ScalarKind,
        data: Data,
        missing: Mask | None = None,
        bad: Mask | None = None,
        *,
        constant: bool = False,
        bounds: Range | None = None,
    ) -> None:
        self.kind = kind
        self.data = data
        self.missing = missing
        self.bad = bad
        self.constant = constant
        self._bounds = bounds

    def bounds(self) -> Range:
        """Between which ints the values lie."""
        if self._bounds is None:
            if self.constant:
                self._bounds = (int(self.data), int(self.data))
            elif not len(self.data):
                self._bounds = (0, 0)
            elif self.kind is ScalarKind.BOOL:
                self._bounds = (0, 1)
            else:
                self._bounds = (int(self.data.min()), int(self.data.max()))
        return self._bounds

    def with_bad(self, *masks: Mask | None) -> Vector:
        """The same, with more rows that Python has to compute."""
        bad = union(self.bad, *masks)
        return Vector(self.kind, self.data, self.missing, bad, constant=self.constant,
                      bounds=self._bounds)  # fmt: skip

    def column(self, size: int) -> Column:
        """The values as a column."""
        return Column(self.kind, spread(self, self.kind, size), self.all_missing(size))

    def all_missing(self, size: int) -> Mask | None:
        """Rows whose value is None, of a constant too."""
        if self.kind is ScalarKind.NONE:
            return np.ones(size, np.bool_)
        return self.missing

    def objects(self, size: int) -> list[Value]:
        """The values as Python has them; at a bad row, whatever stands there."""
        return [self.data] * size if self.constant else self.column(size).objects()


def union(*masks: Mask | None) -> Mask | None:
    """Rows that are in one of these."""
    found = [m for m in masks if m is not None]
    return reduce(np.logical_or, found) if found else None


def within(mask: Mask | None, rows: Mask) -> Mask | None:
    """Those of a mask that are among these rows."""
    return None if mask is None else mask & rows


def spread(vector: Vector, kind: ScalarKind, size: int) -> Data:
    """The values as an array, also of a constant, and of None where a kind is expected."""
    if vector.kind is ScalarKind.NONE:
        if kind in _ARROW_KINDS:
            return pa.nulls(size, ARROW[kind])
        return np.zeros(size, DTYPES[kind])
    if not vector.constant:
        return vector.data
    if kind in _ARROW_KINDS:
        return pa.repeat(pa.scalar(vector.data, ARROW[kind]), size)
    return np.full(size, vector.data, DTYPES[kind])


def of_column(column: Column) -> Vector:
    """The values of a leaf."""
    return Vector(column.kind, column.data, column.missing)


def booleans(array: pa.Array) -> Mask:
    """An Arrow array of truth values, null where something was missing, as a mask."""
    if array.null_count:
        array = array.fill_null(False)
    found: Mask = array.to_numpy(zero_copy_only=False)
    return found


def truth(vector: Vector, size: int) -> Mask:
    """Where the values are true, as `if` sees them."""
    if vector.kind is ScalarKind.NONE:
        return np.zeros(size, np.bool_)
    if vector.constant:
        return np.full(size, bool(vector.data))
    data = vector.data
    if vector.kind is ScalarKind.BOOL:
        found: Mask = data
    elif vector.kind in _ARROW_KINDS:
        found = lengths(data) != 0
    else:
        found = data != 0
    return found if vector.missing is None else found & ~vector.missing


def lengths(array: Data) -> Ints:
    """The bytes of each text, zero where it is missing."""
    width = np.int64 if array.type in (pa.large_string(), pa.large_binary()) else np.int32
    count = len(array)
    if not count:
        return np.zeros(0, np.int64)
    _, offsets, _ = array.buffers()
    ends = np.frombuffer(offsets, width, count + 1, array.offset * np.dtype(width).itemsize)
    return np.diff(ends).astype(np.int64)
