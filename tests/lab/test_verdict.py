"""Comparing answers, against a naive model and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.verdict import SHOWN, judge
from headrace.lab.workload import Row

ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"])), max_size=12)


@given(ROWS, ROWS)
def test_missing_and_surplus_are_what_crossing_out_leaves(
    ours: list[Row], theirs: list[Row]
) -> None:
    missing, surplus = list(theirs), []
    for row in ours:
        if row in missing:
            missing.remove(row)
        else:
            surplus.append(row)
    verdict = judge(ours, theirs)
    assert verdict.right == (not missing and not surplus)
    assert (verdict.missing, verdict.surplus) == (len(missing), len(surplus))
    assert verdict.missing_rows == tuple(sorted(missing)[:SHOWN])
    assert verdict.surplus_rows == tuple(sorted(surplus)[:SHOWN])
    assert (verdict.rows, verdict.expected) == (len(ours), len(theirs))


def test_the_order_of_rows_does_not_count_but_their_number_does() -> None:
    assert judge([(1,), (2,)], [(2,), (1,)]).right
    assert not judge([(1,), (1,)], [(1,)]).right
    assert not judge([], [(1,)]).right
    assert judge([], []).right


def test_an_empty_answer_is_not_praised() -> None:
    assert judge([(1,)], [(1,)]).lines() == ["right: 1 rows, as the oracle has them"]
    (told,) = judge([], []).lines()
    assert told == "right, but it says little: neither the run nor the oracle has a row"


def test_the_rule_of_a_workload_decides_what_is_compared() -> None:
    def first_column(rows: Iterable[Row]) -> Counter[Row]:
        return Counter((row[0],) for row in rows)

    assert judge([("a", 1)], [("a", 2)], first_column).right
    verdict = judge([("a", 1)], [("b", 1)], first_column)
    assert (verdict.missing_rows, verdict.surplus_rows) == ((("b",),), (("a",),))


def test_a_wrong_answer_says_which_rows_and_how_many_more() -> None:
    verdict = judge([(0, "x")], [(n, "y") for n in range(7)])
    assert verdict.lines() == [
        "WRONG: 1 rows, the oracle has 7; 7 missing, 1 too many",
        "  missing: (0, 'y')",
        "  missing: (1, 'y')",
        "  missing: (2, 'y')",
        "  missing: (3, 'y')",
        "  missing: (4, 'y')",
        "  missing: and 2 more",
        "  too many: (0, 'x')",
    ]


def test_rows_of_types_that_have_no_order_are_shown_too() -> None:
    assert judge([], [(1,), ("a",), (None,)]).missing == 3
