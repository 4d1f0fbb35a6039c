"""Comparisons, membership and lookups on columns, as Python does them.

Python compares an int with a float exactly; where a float cannot hold the int, the row is bad. None
equals nothing but None, and has no order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.expressions import Constant, Operation
from headrace.plan.shapes import ScalarKind, ScalarShape
from headrace.worker.beam_types import Value
from headrace.worker.columns.column import ARROW, DTYPES, Column, Data, Mask, column_of_objects
from headrace.worker.columns.vectors import (
    EXACT,
    INT_MAX,
    INT_MIN,
    Ints,
    Vector,
    booleans,
    spread,
    union,
)

_FLOAT, _INT, _BOOL = ScalarKind.FLOAT, ScalarKind.INT, ScalarKind.BOOL
_ARROW_KINDS = (ScalarKind.TEXT, ScalarKind.BYTES)

_NUMBERS: dict[Operation, np.ufunc] = {
    Operation.EQUAL: np.equal,
    Operation.NOT_EQUAL: np.not_equal,
    Operation.LESS: np.less,
    Operation.LESS_EQUAL: np.less_equal,
    Operation.GREATER: np.greater,
    Operation.GREATER_EQUAL: np.greater_equal,
}
_TEXTS: dict[Operation, Callable[[Data, Data], pa.Array]] = {
    Operation.EQUAL: pc.equal,
    Operation.NOT_EQUAL: pc.not_equal,
    Operation.LESS: pc.less,
    Operation.LESS_EQUAL: pc.less_equal,
    Operation.GREATER: pc.greater,
    Operation.GREATER_EQUAL: pc.greater_equal,
}


def compare(operation: Operation, a: Vector, b: Vector, size: int) -> Vector:
    """`a operation b` of two values that can be compared, at least one of which is an array."""
    bad = union(a.bad, b.bad)
    if a.kind in _ARROW_KINDS:
        # The order of UTF-8 by bytes is that of code points.
        found = booleans(_TEXTS[operation](_text(a), _text(b)))
    else:
        x, y, inexact = _alike(a, b)
        found = _NUMBERS[operation](x, y)
        bad = union(bad, inexact)
    if a.missing is None and b.missing is None:
        return Vector(_BOOL, found, None, bad)
    if operation not in (Operation.EQUAL, Operation.NOT_EQUAL):
        return Vector(_BOOL, found, None, union(bad, a.missing, b.missing))
    none = np.zeros(size, np.bool_)
    x, y = (none if v.missing is None else v.missing for v in (a, b))
    same = np.where(x | y, x & y, found if operation is Operation.EQUAL else ~found)
    return Vector(_BOOL, same if operation is Operation.EQUAL else ~same, None, bad)


def _text(a: Vector) -> Data:
    return pa.scalar(a.data, ARROW[a.kind]) if a.constant else a.data


def _alike(a: Vector, b: Vector) -> tuple[Data, Data, Mask | None]:
    """Both operands in one type, and the rows where that changes one of them."""
    if (a.kind is _FLOAT) == (b.kind is _FLOAT):
        return a.data, b.data, None
    inexact = None
    for operand in (a, b):
        if operand.kind is _INT:
            low, high = operand.bounds()
            if low < -EXACT or high > EXACT:
                whole = np.asarray(operand.data, np.int64)
                rows = (whole > EXACT) | (whole < -EXACT)
                other = b if operand is a else a
                shape = np.shape(other.data if operand.constant else operand.data)
                inexact = np.broadcast_to(rows, shape)
    x, y = (np.asarray(v.data, np.float64) for v in (a, b))
    return x, y, inexact


# Constants as keys --------------------------------------------------------------------------------


def _as_key(value: Value, kind: ScalarKind) -> Value:
    """The value of a kind that equals a constant; None: there is none."""
    if kind in _ARROW_KINDS:
        return value if isinstance(value, str if kind is ScalarKind.TEXT else bytes) else None
    if not isinstance(value, int | float):
        return None
    try:
        made: Value = float(value) if kind is _FLOAT else int(value)
    except (OverflowError, ValueError):  # infinity or NaN as an int, an int too large for a float
        return None
    if made != value or (kind is not _FLOAT and not INT_MIN <= made <= INT_MAX):
        return None
    return made


class Keys:
    """Constants that a column is looked up in, the last of equal ones winning."""

    def __init__(self, constants: tuple[Constant, ...], kind: ScalarKind) -> None:
        self.none: int | None = None  # the place of None among the constants
        # A bool column is looked up as ints: as keys they are the same.
        self._kind = _INT if kind is _BOOL else kind
        places: dict[Value, int] = {}
        for place, constant in enumerate(constants):
            if constant.value is None:
                self.none = place
            elif (key := _as_key(constant.value, self._kind)) is not None:
                places[key] = place
        self._places = np.array([*places.values(), -1], np.int64)  # -1: of what is not there
        if self._kind in _ARROW_KINDS:
            self._texts = pa.array(list(places), ARROW[self._kind])
        else:
            found = np.array(list(places), DTYPES[self._kind])
            self._order = np.argsort(found, kind="stable")
            self._sorted = found[self._order]

    def places(self, operand: Vector, size: int) -> Ints:
        """The place of each value among the constants, -1 where it is none of them."""
        if operand.kind is ScalarKind.NONE:
            return np.full(size, -1 if self.none is None else self.none, np.int64)
        data = spread(operand, operand.kind, size)
        found = self._of_texts(data) if self._kind in _ARROW_KINDS else self._of_numbers(data)
        if operand.missing is not None:
            found = np.where(operand.missing, -1 if self.none is None else self.none, found)
        return found

    def _of_texts(self, data: Data) -> Ints:
        wanted = self._texts if data.type == self._texts.type else self._texts.cast(data.type)
        places = pc.index_in(data, value_set=wanted).fill_null(len(wanted))
        found: Ints = self._places[places.to_numpy(zero_copy_only=False)]
        return found

    def _of_numbers(self, data: Data) -> Ints:
        count = len(self._sorted)
        if not count:
            return np.full(len(data), -1, np.int64)
        at = np.asarray(np.searchsorted(self._sorted, data))
        at[at == count] = 0
        there = self._sorted[at] == data
        found: Ints = np.where(there, self._places[self._order[at]], -1)
        return found


class _Constants:
    """Constants of a step, told apart by which they are: to hash a thousand takes too long."""

    __slots__ = ("constants",)

    def __init__(self, constants: tuple[Constant, ...]) -> None:
        self.constants = constants

    def __hash__(self) -> int:
        return id(self.constants)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constants) and self.constants is other.constants


def keys_of(constants: tuple[Constant, ...], kind: ScalarKind) -> Keys:
    """The keys for a column of a kind, made once for these very constants."""
    return _keys(_Constants(constants), kind)


@functools.lru_cache(maxsize=256)
def _keys(held: _Constants, kind: ScalarKind) -> Keys:
    return Keys(held.constants, kind)


def values_of(constants: tuple[Constant, ...], kind: ScalarKind) -> Column:
    """The column of what is looked up, with None behind it; made once for these very constants."""
    return _values(_Constants(constants), kind)


@functools.lru_cache(maxsize=256)
def _values(held: _Constants, kind: ScalarKind) -> Column:
    shape = ScalarShape(kind, nullable=True)
    made = column_of_objects([*(c.value for c in held.constants), None], shape)
    assert made is not None  # constants that do not fit are not lowered
    return made
