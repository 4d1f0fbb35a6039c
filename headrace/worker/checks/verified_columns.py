"""Compares what columns gave with what the user's own functions give: `--verify_columns`.

Values must be equal and of the same type, to the sign of a zero and the bits of a NaN's absence.
Slow, and there to find a kernel that is wrong.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import NoReturn

import pyarrow as pa
from apache_beam import Row
from apache_beam.transforms.window import TimestampedValue

from headrace.errors import ColumnsDifferError
from headrace.worker.beam_types import Key, Value
from headrace.worker.columns.kernels import Outcome
from headrace.worker.columns.values import ColumnValues

#: Shows values in messages: they may be of many megabytes.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 300
_SHORT.maxtuple = _SHORT.maxlist = 20


def verify(
    step: str,
    values: ColumnValues,
    outcome: Outcome,
    outputs: Callable[[Value], Sequence[Value]],
) -> None:
    """Compare a kernel's outcome with what the user's function gives for each element.

    Args:
        step: its name.
        values: what the kernel took.
        outcome: what it gave; rows that it handed back are not compared, they take the usual way.
        outputs: the user's function.

    Raises:
        ColumnsDifferError: for one of the elements they differ.
    """
    handed_back = set() if outcome.back is None else set(outcome.back.tolist())
    keep = [True] * len(values) if outcome.keep is None else outcome.keep.tolist()
    results = _results(outcome, 0, len(values))
    for i, value in enumerate(values.objects()):
        if i in handed_back:
            continue
        given = (results[i],) if keep[i] else ()
        try:
            wanted = outputs(value)
        except Exception as error:  # noqa: BLE001 (whatever a user's function raises)
            _differ(step, f"element {_SHORT.repr(value)}", f"raised {error!r}", _shown(given))
        wanted = [*map(_untimed, wanted)] if outcome.times is not None else wanted
        if len(wanted) != len(given) or not all(map(same, wanted, given)):
            _differ(step, f"element {_SHORT.repr(value)}", f"gave {_shown(wanted)}", _shown(given))


def verify_outputs(
    step: str, value: Value, wanted: Iterator[Value], outcome: Outcome, start: int, end: int
) -> None:
    """Compare some rows of an outcome with the next outputs of the user's function.

    Raises:
        ColumnsDifferError: they differ.
    """
    results = _results(outcome, start, end)
    keep = [True] * len(results) if outcome.keep is None else outcome.keep[start:end].tolist()
    for result, kept in zip(results, keep, strict=True):
        if not kept:
            continue
        other = next(wanted, _NOTHING)
        other = _untimed(other) if outcome.times is not None else other
        if not same(other, result):
            what = f"element {_SHORT.repr(value)}"
            _differ(step, what, f"gave {_SHORT.repr(other)}", _SHORT.repr(result))


_NOTHING = object()


def _results(outcome: Outcome, start: int, end: int) -> list[Value]:
    """Give outputs; those that were given a time, with it."""
    found = outcome.values.slice(start, end).objects()
    if outcome.times is None:
        return found
    return list(zip(found, outcome.times[start:end].tolist(), strict=True))


def _untimed(output: Value) -> Value:
    stamped = isinstance(output, TimestampedValue)
    return (output.value, output.timestamp.micros) if stamped else output


def verify_accumulator(step: str, key: Key, wanted: Value, given: Value) -> None:
    """Compare what a key's values add up to.

    Raises:
        ColumnsDifferError: the accumulators differ.
    """
    if not same(wanted, given):
        _differ(step, f"key {_SHORT.repr(key)}", f"gave {_SHORT.repr(wanted)}", _SHORT.repr(given))


def verify_fields(
    step: str, names: Sequence[str], wanted: Sequence[Value], given: Sequence[Value]
) -> None:
    """Compare what the fields of a DoFn come to with a batch.

    Raises:
        ColumnsDifferError: they differ.
    """
    for name, a, b in zip(names, wanted, given, strict=True):
        if not same(a, b):
            _differ(step, f"field {name}", f"came to {_SHORT.repr(a)}", _SHORT.repr(b))


def verify_windows(step: str, value: Value, wanted: Value, given: Value) -> None:
    """Compare the windows of an element.

    Raises:
        ColumnsDifferError: they differ.
    """
    if list(wanted) != list(given):
        _differ(step, f"element {_SHORT.repr(value)}", f"gave {list(wanted)}", f"{list(given)}")


def verify_arrays(
    step: str, names: Sequence[str], wanted: list[pa.Array], given: list[pa.Array]
) -> None:
    """Compare columns of a sink, given as lists of Arrow arrays.

    Raises:
        ColumnsDifferError: they differ.
    """
    for name, a, b in zip(names, wanted, given, strict=True):
        if a.type != b.type:
            _differ(step, f"column {name!r}", f"has {a.type}", f"{b.type}")
        if not a.equals(b):
            for i, (x, y) in enumerate(zip(a.to_pylist(), b.to_pylist(), strict=True)):
                if not same(x, y):
                    where = f"row {i} of column {name!r}"
                    _differ(step, where, f"gave {_SHORT.repr(x)}", _SHORT.repr(y))


def _differ(step: str, what: str, wanted: str, given: str) -> NoReturn:
    msg = (
        f"{step}: for {what} your function {wanted}, and columns gave {given}. headrace has "
        "computed it wrongly: run with --columns=off, and report it"
    )
    raise ColumnsDifferError(msg)


def _shown(outputs: Sequence[Value]) -> str:
    if not outputs:
        return "nothing"
    return _SHORT.repr(outputs[0] if len(outputs) == 1 else outputs)


def same(a: Value, b: Value) -> bool:
    """Whether two values are equal and of one type, and so all that is in them.

    >>> same((1, -0.0), (1, 0.0)), same(1, True), same(float("nan"), float("nan"))
    (False, False, True)
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, Row):
        return same(a.as_dict(), b.as_dict())
    if is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a is b or bool(a == b)
