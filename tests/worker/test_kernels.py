"""What kernels give on single rows whose answers are written by hand, and what they hand back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import pytest

from headrace.compiler.lower.one_step import lower
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.expressions import Lowered
from headrace.worker.columns.kernels import Outcome, kernel_of
from headrace.worker.columns.values import ColumnValues, of_objects

BACK = "handed back"
MOST, LEAST = 2**63 - 1, -(2**63)


class Row(NamedTuple):
    i: Any = 0
    j: Any = 1
    f: Any = 0.0
    s: Any = ""
    n: Any = None


class Typed(NamedTuple):
    i: int
    j: int
    f: float
    s: str
    n: Optional[int]  # noqa: UP045 (as a user of an older Python writes it)


def outcome(transform: Any, rows: list[Row]) -> Outcome:
    shape = shape_of_hint(Typed)
    assert shape is not None
    made = lower(transform.fn, shape)
    assert isinstance(made, Lowered), made
    batch = of_objects([Typed(*row) for row in rows], shape)
    assert batch is not None
    return kernel_of(made)(ColumnValues(batch.shape, batch.leaves, len(batch)))


def given(function: Any, *rows: Row) -> list[Any]:
    """The result for each row, or that the row goes to the user's function."""
    found = outcome(beam.Map(function), list(rows))
    results = found.values.objects()
    for place in [] if found.back is None else found.back.tolist():
        results[place] = BACK
    return results


def test_ints_that_leave_64_bits_are_handed_back() -> None:
    assert given(lambda r: r.i + r.j, Row(MOST, 1), Row(MOST, 0), Row(LEAST, -1)) == [
        BACK, MOST, BACK,
    ]  # fmt: skip
    assert given(lambda r: r.i - r.j, Row(LEAST, 1), Row(0, LEAST)) == [BACK, BACK]
    assert given(lambda r: r.i * r.j, Row(3_037_000_500, 3_037_000_500), Row(-7, 3)) == [BACK, -21]
    assert given(lambda r: -r.i, Row(LEAST), Row(5)) == [BACK, -5]
    assert given(lambda r: abs(r.i), Row(LEAST), Row(-5)) == [BACK, 5]
    assert given(lambda r: r.i // r.j, Row(LEAST, -1), Row(7, -2)) == [BACK, -4]
    assert given(lambda r: r.i << r.j, Row(1, 62), Row(1, 63), Row(1, -1)) == [2**62, BACK, BACK]


def test_division_floors_and_by_zero_it_is_handed_back() -> None:
    assert given(lambda r: r.i // r.j, Row(-7, 2), Row(7, -2), Row(1, 0)) == [-4, -4, BACK]
    assert given(lambda r: r.i % r.j, Row(-7, 2), Row(7, -2), Row(1, 0)) == [1, -1, BACK]
    assert given(lambda r: r.f // 2, Row(f=-0.5), Row(f=-0.0)) == [-1.0, 0.0]
    assert math.copysign(1, given(lambda r: r.f // 2, Row(f=-0.0))[0]) == -1
    assert given(lambda r: r.i / r.j, Row(1, 3), Row(1, 0)) == [1 / 3, BACK]


def test_a_quotient_of_large_ints_is_not_rounded_twice() -> None:
    # No float is 2 ** 53 + 1: Python divides the ints and rounds once.
    assert given(lambda r: r.i / r.j, Row(2**53 + 1, 3), Row(2**53, 3)) == [BACK, 2**53 / 3]


def test_ints_and_floats_are_compared_exactly() -> None:
    assert given(lambda r: r.i == r.f, Row(2**53, f=2.0**53), Row(2**53 + 1, f=2.0**53)) == [
        True, BACK,
    ]  # fmt: skip
    assert given(lambda r: r.i < r.f, Row(3, f=math.nan), Row(3, f=math.inf)) == [False, True]


def test_none_equals_none_alone_and_has_no_arithmetic() -> None:
    assert given(lambda r: r.n == r.i, Row(1, n=None), Row(1, n=1)) == [False, True]
    assert given(lambda r: r.n is None, Row(), Row(n=0)) == [True, False]
    assert given(lambda r: r.n + 1, Row(), Row(n=1)) == [BACK, 2]
    assert given(lambda r: r.n < 1, Row(), Row(n=0)) == [BACK, True]
    assert given(lambda r: r.n or r.i, Row(7), Row(7, n=0), Row(7, n=3)) == [7, 7, 3]


def test_only_the_branch_that_is_taken_can_hand_a_row_back() -> None:
    assert given(lambda r: r.i // r.j if r.j else -1, Row(7, 0), Row(7, 2)) == [-1, 3]
    assert given(lambda r: r.j and r.i // r.j, Row(7, 0), Row(7, 2)) == [0, 3]
    assert given(lambda r: int(r.s) if r.s.isdigit() else 0, Row(s="x"), Row(s="12")) == [0, 12]


def test_texts_are_cut_by_code_points_and_cased_by_pythons_tables() -> None:
    assert given(lambda r: r.s[:2], Row(s="😀ab"), Row(s="a")) == ["😀a", "a"]
    assert given(lambda r: r.s.upper(), Row(s="straße"), Row(s="a")) == ["STRASSE", "A"]
    assert given(lambda r: len(r.s), Row(s="😀"), Row(s="e\u0301")) == [1, 2]
    assert given(lambda r: int(r.s), Row(s=" 12 "), Row(s="x"), Row(s=str(2**63))) == [
        12, BACK, BACK,
    ]  # fmt: skip


def test_numbers_are_written_and_rounded_as_python_does() -> None:
    assert given(lambda r: f"{r.f}|{r.i:>3}|{r.n}", Row(7, f=1e16)) == ["1e+16|  7|None"]
    assert given(lambda r: round(r.f), Row(f=2.5), Row(f=3.5), Row(f=math.inf)) == [2, 4, BACK]
    assert given(lambda r: round(r.f, 2), Row(f=2.675)) == [2.67]
    assert given(lambda r: int(r.f), Row(f=-1.9), Row(f=2.0**63)) == [-1, BACK]


TABLE = {1: "one", 2: "two"}


def test_a_key_that_is_not_there_is_handed_back_or_has_a_default() -> None:
    assert given(lambda r: TABLE[r.i], Row(2), Row(3)) == ["two", BACK]
    assert given(lambda r: TABLE.get(r.f, "?"), Row(f=1.0), Row(f=1.5)) == ["one", "?"]
    assert given(lambda r: r.i in (1, 2.0, None), Row(2), Row(3)) == [True, False]
    assert given(lambda r: r.n in (1, 2.0, None), Row(), Row(n=3)) == [True, False]


def test_a_predicate_and_an_output_that_may_be_missing_have_a_mask() -> None:
    rows = [Row(3, 1), Row(4, 0), Row(9, 2)]
    kept = outcome(beam.Filter(lambda r: r.i // r.j > 3), rows)
    assert kept.keep is not None and kept.keep.tolist()[::2] == [False, True]
    assert kept.back is not None and kept.back.tolist() == [1]

    def halves(r: Any) -> Any:
        if r.j:
            yield r.i // r.j

    made = outcome(beam.FlatMap(halves), rows)
    assert made.keep is not None and made.keep.tolist() == [True, False, True]
    assert made.back is None
    assert made.values.filter(made.keep).objects() == [3, 4]


def test_a_constant_behind_what_may_raise_has_a_value_for_each_row() -> None:
    def three(r: Any) -> Any:
        n = 1 // r.j
        n = 3
        return n

    assert given(lambda r: three(r) // 2 + three(r) * 7, Row(j=1), Row(j=0)) == [22, BACK]


@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_batch_has_empty_results(size: int) -> None:
    rows = [Row(3, 2)] * size
    found = outcome(beam.Map(lambda r: (r.i // r.j, r.s.split(",")[0], f"{r.f:.1f}")), rows)
    assert found.values.objects() == [(1, "", "0.0")] * size
