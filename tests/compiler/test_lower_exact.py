"""Generated functions on generated rows: columns give what Python gives, by value and by type.

`HEADRACE_FUNCTIONS=10000` asks for as many functions; a usual run has some hundreds.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from typing import Any

import apache_beam as beam
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from headrace.compiler.lower import NotLowered, lower
from headrace.compiler.lower_shapes import shape_of_hint
from headrace.plan.shapes import Shape
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues, of_objects
from tests.compiler.lower_grammar import Record, compiled, function_text, rows

FUNCTIONS = int(os.environ.get("HEADRACE_FUNCTIONS", "300"))
_SHAPE = shape_of_hint(Record)
assert _SHAPE is not None
SHAPE: Shape = _SHAPE
TRANSFORMS = {
    "map": beam.Map, "filter": beam.Filter, "generator": beam.FlatMap, "listed": beam.FlatMap,
}  # fmt: skip
counted: Counter[str] = Counter()


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, and of the same types to the last part."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def outputs(form: str, function: Any, row: Record) -> list[Any]:
    """What Python gives for a row; raises what the function raises."""
    if form == "map":
        return [function(row)]
    if form == "filter":
        return [row] if function(row) else []
    found = function(row)
    return [] if found is None else list(found)


def columns(given: list[Record]) -> ColumnValues:
    made = of_objects(given, SHAPE)
    assert made is not None
    return ColumnValues(made.shape, made.leaves, len(made))  # without the objects it came from


@settings(
    max_examples=FUNCTIONS, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**63))
def test_a_generated_function_gives_on_columns_what_python_gives(
    seed: int,
) -> None:
    form, text = function_text(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            function = compiled(text)
        except SyntaxError:  # an f-string inside of another, before Python 3.12
            reject()
        lowered = lower(TRANSFORMS[form](function).fn, SHAPE)
    counted["all"] += 1
    if isinstance(lowered, NotLowered):
        assert "gave up" not in lowered.reason, (lowered, text)
        counted["not lowered"] += 1
        return
    given = rows(seed)
    outcome = kernel_of(lowered)(columns(given))
    back = set() if outcome.back is None else set(outcome.back.tolist())
    results = outcome.values.objects()
    counted["rows"] += len(given)
    counted["rows handed back"] += len(back)
    for place, row in enumerate(given):
        if place in back:
            continue
        expected = outputs(form, function, row)
        kept = outcome.keep is None or bool(outcome.keep[place])
        found = [results[place]] if kept else []
        assert same(tuple(found), tuple(expected)), (text, row, found, expected, str(lowered))


def test_the_generated_functions_are_lowered_often_enough_to_say_something() -> None:
    if not counted["all"]:  # the file's tests may be chosen one by one
        return
    print(dict(counted))
    assert counted["not lowered"] < 0.9 * counted["all"]
    assert counted["rows handed back"] < 0.8 * counted["rows"]
