"""Calls of known functions on columns: by NumPy or Arrow where they give just what Python gives.

Where they do not, or for all it is known might not, Python's own function is called for each row;
on columns that is still cheaper than on objects with fields. A row for which it raises is bad, and
so is one whose result is of another type than the call gives as a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.functions import FUNCTIONS
from headrace.plan.shapes import ScalarKind, ScalarShape
from headrace.worker.beam_types import Value
from headrace.worker.columns import arithmetic
from headrace.worker.columns.column import Data, Mask, column_of_objects
from headrace.worker.columns.vectors import Ints, Vector, booleans, union

_FLOAT, _INT, _BOOL, _TEXT = ScalarKind.FLOAT, ScalarKind.INT, ScalarKind.BOOL, ScalarKind.TEXT
_NUMBERS = (_FLOAT, _INT, _BOOL)

#: A faster way, or None where it is not sure to give what Python gives.
Fast = Callable[[Sequence[Vector], int], Vector | None]


def call(
    name: str, arguments: Sequence[Vector], gives: ScalarKind, size: int, active: Mask | None
) -> Vector:
    """Call a known function on every row; what rows outside `active` give means nothing."""
    fast = _FAST.get(name)
    made = None if fast is None else fast(arguments, size)
    if made is not None:
        return made
    return by_python(FUNCTIONS[name].call, arguments, gives, size, active)


def by_python(
    function: Callable[..., Value],
    arguments: Sequence[Vector],
    gives: ScalarKind,
    size: int,
    active: Mask | None,
) -> Vector:
    """Call a function of Python's on every row."""
    bad = union(*(a.bad for a in arguments))
    skipped = union(bad, None if active is None else ~active)
    lists = [a.objects(size) for a in arguments]
    results: list[Value]
    raised: list[int] = []
    if skipped is None:
        try:
            results = list(map(function, *lists))
        except Exception:  # noqa: BLE001 (it is raised again by the user's own function)
            results, raised = _one_by_one(function, lists, range(size), size)
    else:
        rows = np.flatnonzero(~skipped).tolist()
        results, raised = _one_by_one(function, lists, rows, size)
    return _fitting(results, raised, skipped, gives, size).with_bad(bad)


def _one_by_one(
    function: Callable[..., Value], lists: list[list[Value]], rows: Sequence[int], size: int
) -> tuple[list[Value], list[int]]:
    results: list[Value] = [None] * size
    raised = []
    for row in rows:
        try:
            results[row] = function(*[values[row] for values in lists])
        except Exception:  # noqa: BLE001 (it is raised again by the user's own function)
            raised.append(row)
    return results, raised


def _fitting(
    results: list[Value], raised: list[int], skipped: Mask | None, gives: ScalarKind, size: int
) -> Vector:
    """The results as a vector; bad are those that raised, or do not fit a column of the kind."""
    if not raised and skipped is None:
        made = column_of_objects(results, ScalarShape(gives))
        if made is not None:
            return Vector(gives, made.data)
    bad = np.zeros(size, np.bool_)
    bad[raised] = True
    made = column_of_objects(results, ScalarShape(gives, nullable=True))
    if made is None:
        singles = [column_of_objects([r], ScalarShape(gives, nullable=True)) for r in results]
        kept = [None if s is None else r for r, s in zip(results, singles, strict=True)]
        made = column_of_objects(kept, ScalarShape(gives, nullable=True))
        assert made is not None
    if made.missing is not None:
        bad |= made.missing if skipped is None else made.missing & ~skipped
    return Vector(gives, made.data, None, bad)


# Faster ways --------------------------------------------------------------------------------------


def _number(way: Callable[[Vector], Vector], arguments: Sequence[Vector], _size: int) -> (
    Vector | None
):
    if len(arguments) != 1 or arguments[0].kind not in _NUMBERS or arguments[0].constant:
        return None
    return way(arguments[0])


def _length(arguments: Sequence[Vector], _size: int) -> Vector | None:
    (text,) = arguments
    if text.constant:
        return None
    counted = pc.utf8_length(text.data) if text.kind is _TEXT else pc.binary_length(text.data)
    return Vector(_INT, _ints(counted), None, union(text.bad, text.missing))


def _ints(array: Data) -> Ints:
    if array.null_count:
        array = array.fill_null(0)
    found: Ints = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _extreme(least: bool, arguments: Sequence[Vector], _size: int) -> Vector | None:
    if arguments[0].kind not in (_INT, _FLOAT):
        return None
    found: Data = arguments[0].data
    for other in arguments[1:]:
        data = other.data
        # Python keeps the first unless a later one is really beyond it: so with NaN and -0.0.
        beyond = data < found if least else data > found
        found = np.where(beyond, data, found)
    bad = union(*(a.bad for a in arguments), *(a.missing for a in arguments))
    return Vector(arguments[0].kind, found, None, bad)


def _text_of(arguments: Sequence[Vector], _size: int) -> Vector | None:
    (value,) = arguments
    if value.constant or value.missing is not None:
        return None
    if value.kind is _TEXT:
        return value
    if value.kind is not _INT:
        return None  # Arrow writes floats in another way
    return Vector(_TEXT, pc.cast(pa.array(value.data), pa.string()), None, value.bad)


def _formatted(arguments: Sequence[Vector], size: int) -> Vector | None:
    value, spec = arguments
    if not spec.constant or spec.data != "" or value.kind is _BOOL:
        return None
    return _text_of((value,), size)


def _matching(
    way: Callable[..., pa.Array], arguments: Sequence[Vector], _size: int
) -> Vector | None:
    if len(arguments) != 2:
        return None
    text, part = arguments
    if text.constant or not part.constant:
        return None
    found = booleans(way(text.data, pattern=part.data))
    return Vector(_BOOL, found, None, union(text.bad, text.missing))


def _containing(arguments: Sequence[Vector], size: int) -> Vector | None:
    part, text = arguments
    return _matching(pc.match_substring, (text, part), size)


def _cased(
    way: Callable[[pa.Array], pa.Array], arguments: Sequence[Vector], _size: int
) -> Vector | None:
    (text,) = arguments
    if text.constant or not _is_ascii(text.data):
        return None  # Arrow's tables of other letters are not Python's
    return Vector(_TEXT, way(text.data), None, union(text.bad, text.missing))


def _cut(arguments: Sequence[Vector], _size: int) -> Vector | None:
    text, *ends = arguments
    if text.constant or not all(e.constant for e in ends) or not _is_ascii(text.data):
        return None
    start, stop, step = (e.data for e in ends)
    if step not in (None, 1) or (start or 0) < 0 or stop is None or stop < 0:
        return None
    start = start or 0
    made = pc.utf8_slice_codeunits(text.data, start=start, stop=max(start, stop))
    return Vector(_TEXT, made, None, union(text.bad, text.missing))


def _split(arguments: Sequence[Vector], _size: int) -> Vector | None:
    """An item of a text that is split at a separator; the last argument is its place."""
    text, separator, most, *count, place = arguments
    if text.constant or not all(a.constant for a in (separator, most, place, *count)):
        return None
    if separator.data is None:
        return None  # what counts as white space is for Python to say
    limit = None if most.data < 0 else most.data
    lists = pc.split_pattern(text.data, pattern=separator.data, max_splits=limit)
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    sizes = np.diff(offsets)
    at = place.data + (sizes if place.data < 0 else 0)
    bad = (at < 0) | (at >= sizes)
    if count:
        bad |= sizes != count[0].data
    if text.missing is not None:
        bad |= text.missing
    where = np.where(bad, 0, offsets[:-1] + at)
    if not len(lists.values):
        return None
    made = lists.values.take(pa.array(where))
    return Vector(_TEXT, made, None, union(text.bad, bad if bad.any() else None))


def _root(arguments: Sequence[Vector], _size: int) -> Vector | None:
    (value,) = arguments
    if value.constant or value.kind is not _FLOAT:
        return None
    # Python raises for what has no root; NaN passes.
    return Vector(
        _FLOAT, np.sqrt(value.data), None, union(value.bad, value.missing, value.data < 0.0)
    )


def _tested(ufunc: np.ufunc, arguments: Sequence[Vector], _size: int) -> Vector | None:
    (value,) = arguments
    if value.constant or value.kind is not _FLOAT:
        return None
    return Vector(_BOOL, ufunc(value.data), None, union(value.bad, value.missing))


def _is_ascii(array: Data) -> bool:
    *_, content = array.buffers()
    if content is None or not content.size:
        return True
    return int(np.frombuffer(content, np.uint8).max()) < 0x80


_FAST: dict[str, Fast] = {
    "len": _length,
    "abs": partial(_number, arithmetic.absolute),
    "int": partial(_number, arithmetic.as_int),
    "float": partial(_number, arithmetic.as_float),
    "round": partial(_number, arithmetic.rounded),
    "math.trunc": partial(_number, arithmetic.as_int),
    "math.floor": partial(_number, partial(arithmetic.floored, up=False)),
    "math.ceil": partial(_number, partial(arithmetic.floored, up=True)),
    "math.sqrt": _root,
    "math.isnan": partial(_tested, np.isnan),
    "math.isinf": partial(_tested, np.isinf),
    "math.isfinite": partial(_tested, np.isfinite),
    "min": partial(_extreme, True),
    "max": partial(_extreme, False),
    "str": _text_of,
    "format": _formatted,
    "str.startswith": partial(_matching, pc.starts_with),
    "str.endswith": partial(_matching, pc.ends_with),
    "contains": _containing,
    "str.upper": partial(_cased, pc.ascii_upper),
    "str.lower": partial(_cased, pc.ascii_lower),
    "cut": _cut,
    "split_item": _split,
    "split_part": _split,
}
