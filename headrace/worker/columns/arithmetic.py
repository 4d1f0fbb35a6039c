"""Arithmetic on columns of numbers, as Python does it.

An int that leaves 64 bits, a division by zero, a quotient that floats would round twice: such rows
are bad. What the batch's least and greatest values exclude is not looked for row by row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.plan.expressions import Operation
from headrace.plan.shapes import ScalarKind
from headrace.worker.columns.column import Data, Mask
from headrace.worker.columns.vectors import (
    EXACT,
    INT_MAX,
    INT_MIN,
    Floats,
    Ints,
    Range,
    Vector,
    union,
)

_FLOAT, _INT, _BOOL = ScalarKind.FLOAT, ScalarKind.INT, ScalarKind.BOOL


def compute(operation: Operation, a: Vector, b: Vector) -> Vector:
    """`a operation b` of two numbers, at least one of which is an array."""
    gone = union(a.missing, b.missing, a.bad, b.bad)  # None has no arithmetic: Python raises
    if operation is Operation.DIVIDE:
        made = _divide(a, b)
    elif _FLOAT in (a.kind, b.kind):
        made = _FLOATS[operation](_floats(a), _floats(b))
    elif a.kind is _BOOL and b.kind is _BOOL and operation in _BITS:
        return Vector(_BOOL, _BITS[operation](a.data, b.data), None, gone)
    else:
        made = _INTS[operation](_whole(a), _whole(b))
    return made.with_bad(gone)


def negative(a: Vector) -> Vector:
    """`-a`."""
    gone = union(a.missing, a.bad)
    if a.kind is _FLOAT:
        return Vector(_FLOAT, -a.data, None, gone)
    a = _whole(a)
    low, high = a.bounds()
    least = a.data == INT_MIN if low == INT_MIN else None
    bounds = (-high, -low) if least is None else None
    return Vector(_INT, np.negative(a.data), None, union(gone, least), bounds=bounds)


def absolute(a: Vector) -> Vector:
    """`abs(a)`."""
    gone = union(a.missing, a.bad)
    if a.kind is _FLOAT:
        return Vector(_FLOAT, np.abs(a.data), None, gone)
    a = _whole(a)
    least = a.data == INT_MIN if a.bounds()[0] == INT_MIN else None
    return Vector(_INT, np.abs(a.data), None, union(gone, least))


def as_float(a: Vector) -> Vector:
    """`float(a)` of a number: an int is rounded to the nearest float, as Python does."""
    return Vector(_FLOAT, _floats(a), None, union(a.missing, a.bad), constant=a.constant)


def as_int(a: Vector) -> Vector:
    """`int(a)` of a number: towards zero."""
    gone = union(a.missing, a.bad)
    if a.kind is not _FLOAT:
        return _whole(a).with_bad(gone, a.missing)
    return _from_float(np.trunc(a.data)).with_bad(gone)


def rounded(a: Vector) -> Vector:
    """`round(a)`: to the nearest int, and to the even one of two."""
    gone = union(a.missing, a.bad)
    if a.kind is not _FLOAT:
        return _whole(a).with_bad(gone)
    return _from_float(np.rint(a.data)).with_bad(gone)


def floored(a: Vector, up: bool) -> Vector:
    """`math.floor(a)`, or `math.ceil(a)`."""
    gone = union(a.missing, a.bad)
    if a.kind is not _FLOAT:
        return _whole(a).with_bad(gone)
    return _from_float(np.ceil(a.data) if up else np.floor(a.data)).with_bad(gone)


def _from_float(whole: Floats) -> Vector:
    # 2.0 ** 63 is the least float above the greatest int.
    fits = (whole >= -(2.0**63)) & (whole < 2.0**63)
    if fits.all():
        return Vector(_INT, whole.astype(np.int64))
    return Vector(_INT, np.where(fits, whole, 0.0).astype(np.int64), None, ~fits)


def _whole(a: Vector) -> Vector:
    """The same as int64: a bool is an int."""
    if a.constant:
        return Vector(_INT, np.int64(a.data), constant=True, bounds=a.bounds())
    if a.kind is _BOOL:
        return Vector(_INT, a.data.astype(np.int64), bounds=(0, 1))
    return Vector(_INT, a.data, bounds=a.bounds())


#: An array, or one value that stands for all rows.
_Float = Floats | np.float64


def _floats(a: Vector) -> _Float:
    return np.float64(a.data) if a.constant else a.data.astype(np.float64, copy=False)


# Ints ---------------------------------------------------------------------------------------------


def _made(data: Ints, bounds: Range, overflow: Callable[[], Mask]) -> Vector:
    """An int result; `overflow` is asked only where the bounds do not exclude it."""
    if INT_MIN <= bounds[0] and bounds[1] <= INT_MAX:
        return Vector(_INT, data, bounds=bounds)
    return Vector(_INT, data, None, overflow())


def _add(a: Vector, b: Vector) -> Vector:
    (al, ah), (bl, bh) = a.bounds(), b.bounds()
    made = a.data + b.data
    return _made(made, (al + bl, ah + bh), lambda: ((a.data ^ made) & (b.data ^ made)) < 0)


def _subtract(a: Vector, b: Vector) -> Vector:
    (al, ah), (bl, bh) = a.bounds(), b.bounds()
    made = a.data - b.data
    return _made(made, (al - bh, ah - bl), lambda: ((a.data ^ b.data) & (a.data ^ made)) < 0)


def _multiply(a: Vector, b: Vector) -> Vector:
    ends = [x * y for x in a.bounds() for y in b.bounds()]
    made = a.data * b.data

    def overflow() -> Mask:
        # The float product is off by less than one part in 2 ** 51, so that this margin is safe.
        far: Mask = np.abs(_floats(a) * _floats(b)) >= 2.0**62
        return far

    return _made(made, (min(ends), max(ends)), overflow)


def _by_zero(b: Vector) -> Mask | None:
    low, high = b.bounds()
    return np.atleast_1d(b.data == 0) if low <= 0 <= high else None


def _divisor(a: Vector, b: Vector) -> tuple[Data, Mask | None]:
    """What can be divided by without harm, and the rows where it is not the true divisor."""
    size = len(a.data) if b.constant else len(b.data)
    zero = _by_zero(b)
    least = None
    if a.bounds()[0] == INT_MIN and b.bounds()[0] <= -1 <= b.bounds()[1]:
        least = np.atleast_1d((a.data == INT_MIN) & (b.data == -1))
    bad = union(zero, least)
    if bad is None:
        return b.data, None
    bad = np.broadcast_to(bad, (size,))
    return np.where(bad, np.int64(1), b.data), bad


def _floor_divide(a: Vector, b: Vector) -> Vector:
    divisor, bad = _divisor(a, b)
    bounds = None
    if b.constant and bad is None:
        ends = [x // int(b.data) for x in a.bounds()]
        bounds = (min(ends), max(ends))
    return Vector(_INT, np.floor_divide(a.data, divisor), None, bad, bounds=bounds)


def _remainder(a: Vector, b: Vector) -> Vector:
    divisor, bad = _divisor(a, b)
    low, high = b.bounds()
    bounds = (min(low + 1, 0), max(high - 1, 0)) if bad is None else None
    return Vector(_INT, np.remainder(a.data, divisor), None, bad, bounds=bounds)


def _shift_left(a: Vector, b: Vector) -> Vector:
    count = np.clip(b.data, 0, 62)
    made = np.left_shift(a.data, count)
    bad = (np.right_shift(made, count) != a.data) | (b.data != count)
    return Vector(_INT, made, None, np.atleast_1d(bad))


def _shift_right(a: Vector, b: Vector) -> Vector:
    low, _ = b.bounds()
    made = np.right_shift(a.data, np.clip(b.data, 0, 63))
    bad = np.broadcast_to(b.data < 0, np.shape(made)) if low < 0 else None
    return Vector(_INT, made, None, bad)


def _bits(ufunc: np.ufunc) -> Callable[[Vector, Vector], Vector]:
    return lambda a, b: Vector(_INT, ufunc(a.data, b.data))


_BITS: dict[Operation, np.ufunc] = {
    Operation.AND_BITS: np.bitwise_and,
    Operation.OR_BITS: np.bitwise_or,
    Operation.XOR_BITS: np.bitwise_xor,
}
_INTS: dict[Operation, Callable[[Vector, Vector], Vector]] = {
    Operation.ADD: _add,
    Operation.SUBTRACT: _subtract,
    Operation.MULTIPLY: _multiply,
    Operation.FLOOR_DIVIDE: _floor_divide,
    Operation.REMAINDER: _remainder,
    Operation.SHIFT_LEFT: _shift_left,
    Operation.SHIFT_RIGHT: _shift_right,
    **{operation: _bits(ufunc) for operation, ufunc in _BITS.items()},
}


# Floats -------------------------------------------------------------------------------------------


def _divide(a: Vector, b: Vector) -> Vector:
    """True division: Python rounds the quotient of two ints once, floats would round them first."""
    x, y = _floats(a), _floats(b)
    bad = np.atleast_1d(y == 0.0)
    for operand in (a, b):
        if operand.kind is _INT and _FLOAT not in (a.kind, b.kind):
            low, high = operand.bounds()
            if low < -EXACT or high > EXACT:
                bad = bad | (operand.data > EXACT) | (operand.data < -EXACT)
    made = np.divide(x, y)
    return Vector(_FLOAT, made, None, np.broadcast_to(bad, np.shape(made)) if bad.any() else None)


def _float_divmod(x: _Float, y: _Float) -> tuple[Floats, Floats, Mask | None]:
    """Quotient and remainder of floats, by the steps that Python takes."""
    zero = np.atleast_1d(y == 0.0)
    rest = np.fmod(x, y)
    turned = (rest != 0.0) & ((y < 0.0) != (rest < 0.0))
    quotient = (x - rest) / y
    quotient = np.where(turned, quotient - 1.0, quotient)
    rest = np.where(rest != 0.0, np.where(turned, rest + y, rest), np.copysign(0.0, y))
    down = np.floor(quotient)
    down = np.where(quotient - down > 0.5, down + 1.0, down)
    down = np.where(quotient != 0.0, down, np.copysign(0.0, x / y))
    return down, rest, np.broadcast_to(zero, np.shape(rest)) if zero.any() else None


def _float_floor(x: _Float, y: _Float) -> Vector:
    quotient, _, bad = _float_divmod(x, y)
    return Vector(_FLOAT, quotient, None, bad)


def _float_remainder(x: _Float, y: _Float) -> Vector:
    _, rest, bad = _float_divmod(x, y)
    return Vector(_FLOAT, rest, None, bad)


_FLOATS: dict[Operation, Callable[[_Float, _Float], Vector]] = {
    Operation.ADD: lambda x, y: Vector(_FLOAT, x + y),
    Operation.SUBTRACT: lambda x, y: Vector(_FLOAT, x - y),
    Operation.MULTIPLY: lambda x, y: Vector(_FLOAT, x * y),
    Operation.FLOOR_DIVIDE: _float_floor,
    Operation.REMAINDER: _float_remainder,
}
