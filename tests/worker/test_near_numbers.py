"""Numbers near each other are grouped as a dict groups them, and merged rows as keys are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan.shapes import INT, ScalarKind, TupleShape
from headrace.worker.batched.accumulators import Accumulators, Reduce, keyed
from headrace.worker.batched.near_numbers import by_number, in_order_of_coming
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues
from headrace.worker.grouping.column_tables import together


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_groups_are_numbered_in_the_order_of_their_coming(numbers: list[int]) -> None:
    found = in_order_of_coming(np.array(numbers), 31)
    wanted = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    assert found.groups.tolist() == [wanted[number] for number in numbers]
    assert found.first.tolist() == [numbers.index(number) for number in wanted]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 5) | st.integers(2**16 - 3, 2**16 + 3), max_size=60),
    st.sampled_from([2**16 + 4, 2**32, 2**40]),
)
def test_rows_stand_by_number_and_keep_their_order(numbers: list[int], width: int) -> None:
    wanted = sorted(range(len(numbers)), key=numbers.__getitem__)  # sorting keeps the order
    assert by_number(np.array(numbers, np.int64), width).tolist() == wanted


LONG = st.integers(-(2**61), 2**61) | st.integers(-3, 3)
ROW = st.tuples(LONG, LONG, LONG)
ALL = Accumulators(shape=TupleShape((INT,) * 3), reduces=tuple(Reduce))


def part(keys: list[int], rows: list[tuple[int, int, int]]) -> ColumnValues:
    of_keys = ColumnValues(INT, [Column(ScalarKind.INT, np.array(keys, np.int64))])
    return keyed(of_keys, ALL.shape, list(np.array(rows, np.int64).reshape(-1, 3).T))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_parts_are_merged_whether_their_keys_are_the_same_or_not(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True))
    parts: list[tuple[list[int], list[tuple[int, int, int]]]] = []
    for _ in range(data.draw(st.integers(2, 5))):
        own = data.draw(st.just(keys) | st.just(keys) | st.permutations(keys))
        rows = data.draw(st.lists(ROW, min_size=len(own), max_size=len(own)))
        parts.append((own, rows))
    wanted: dict[int, tuple[int, int, int]] = {}
    for own, rows in parts:
        for key, (a, b, c) in zip(own, rows, strict=True):
            x, y, z = wanted.get(key, (0, b, c))
            wanted[key] = (x + a, min(y, b), max(z, c))
    made = together([part(*each) for each in parts], ALL)
    if made is None:  # a sum might need more than 64 bits
        assert max(abs(a) for _, rows in parts for a, _, _ in rows) * len(keys) * 5 >= 2**63 - 1
    else:
        assert dict(made.objects()) == wanted
