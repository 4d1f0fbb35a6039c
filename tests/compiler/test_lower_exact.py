"""Generated functions on generated rows: columns give what Python gives, by value and by type.

`HEADRACE_FUNCTIONS=10000` asks for as many functions; a usual run has some hundreds.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.plan.expressions import Operation
from headrace.plan.shapes import ScalarKind
from headrace.worker.columns import arithmetic
from headrace.worker.columns.vectors import Vector
from tests.compiler import lower_exact
from tests.compiler.lower_exact import SHAPES, Checked
from tests.compiler.lower_rows import KINDS, WEIGHTS

FUNCTIONS = int(os.environ.get("HEADRACE_FUNCTIONS", "300"))
counted: Counter[str] = Counter()


@settings(
    max_examples=FUNCTIONS, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**63))
def test_a_generated_function_gives_on_columns_what_python_gives(
    seed: int,
) -> None:
    checked = Checked(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked.run()
    counted.update(checked.seen)


def test_the_generated_functions_are_lowered_often_enough_to_say_something() -> None:
    if not counted["functions"]:  # the file's tests may be chosen one by one
        return
    assert counted["lowered"] > 0.1 * counted["functions"]
    assert counted["results handed back"] < 0.8 * counted["results"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_element_is_columns_as_its_hint_says(kind: Any) -> None:
    rows = kind.rows(1, 50)
    assert lower_exact.columns_of(rows, SHAPES[kind.name]).objects() is not rows
    assert len(WEIGHTS) == len(KINDS)


def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The referee itself: where whole numbers are one too many, some function has to differ."""
    right = arithmetic.compute

    def wrong(operation: Operation, a: Vector, b: Vector) -> Vector:
        made = right(operation, a, b)
        return Vector(made.kind, made.data + (made.kind is ScalarKind.INT), None, made.bad)

    monkeypatch.setattr(arithmetic, "compute", wrong)
    told: list[str] = []
    seen = lower_exact.held(150, 1, told)
    assert len(told) == seen["differ"] > 0
