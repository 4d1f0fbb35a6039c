"""Groups of columns against plain dictionaries, at the ends of 64 bits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.shapes import BYTES, INT, TEXT, Shape, TupleShape
from headrace.worker.batched.batches import GLOBAL, Columns
from headrace.worker.batched.column_batches import TimeColumns, row_meta
from headrace.worker.batched.column_groups import (
    MAX_ROWS,
    counts,
    group_columns,
    in_groups,
    int_greatest,
    int_least,
    int_sums,
)
from headrace.worker.batched.window_assignment import assigner, column_assigner
from headrace.worker.columns.values import ColumnValues, of_objects

LEAST, GREATEST = -(2**63), 2**63 - 1
NUMBERS = st.integers(LEAST, GREATEST) | st.sampled_from([LEAST, GREATEST, 0, -1, 2**53, 2**32])
ROWS = st.lists(
    st.tuples(
        st.text(max_size=2) | st.sampled_from("ab"), st.sampled_from([0, 10, -10]), NUMBERS
    ),
    min_size=1,
    max_size=60,
)


def columns_of(values: Sequence[Any], shape: Shape) -> ColumnValues:
    made = of_objects(values, shape)
    assert made is not None
    return made


@given(rows=ROWS, windowed=st.booleans())
def test_groups_have_the_sums_and_values_of_a_dictionary(
    rows: list[tuple[str, int, int]], windowed: bool
) -> None:
    names, starts, numbers = zip(*rows, strict=True)
    groups = group_columns(columns_of(names, TEXT), np.array(starts) if windowed else None).listed()
    model: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name, start, number in rows:
        model[name, start if windowed else 0].append(number)
    of_groups = groups.starts if groups.starts is not None else [0] * len(groups)
    keys = list(zip(groups.keys, of_groups, strict=True))
    values, size = np.array(numbers), len(groups)
    assert len(keys) == len(set(keys)) == len(model)
    expected = [model[key] for key in keys]
    assert int_sums(values, groups.numbers, size) == [sum(found) for found in expected]
    assert int_least(values, groups.numbers, size) == [min(found) for found in expected]
    assert int_greatest(values, groups.numbers, size) == [max(found) for found in expected]
    assert counts(groups.numbers, size) == [len(found) for found in expected]
    places, ends = in_groups(groups.numbers, size)
    begins = [0, *ends[:-1]]
    listed = [values[places[a:b]].tolist() for a, b in zip(begins, ends, strict=True)]
    assert listed == expected


PARTS = [
    (INT, NUMBERS), (INT, st.integers(-2, 2)), (TEXT, st.text(st.sampled_from("ab"), max_size=2)),
    (BYTES, st.binary(max_size=1)),
]


@given(
    data=st.data(), parts=st.lists(st.sampled_from(PARTS), min_size=2, max_size=5),
    windowed=st.booleans(),
)
def test_groups_of_tuples_are_those_of_a_dictionary(
    data: st.DataObject, parts: list[Any], windowed: bool
) -> None:
    """Ends of 64 bits among them: their codes may not run over."""
    row = st.tuples(st.tuples(*(made for _, made in parts)), st.sampled_from([0, 10, LEAST]))
    rows = data.draw(st.lists(row, min_size=1, max_size=40))
    keys, starts = zip(*rows, strict=True)
    columns = columns_of(keys, TupleShape(tuple(shape for shape, _ in parts)))
    groups = group_columns(columns, np.array(starts) if windowed else None).listed()
    of_rows = list(zip(keys, starts if windowed else [None] * len(keys), strict=True))
    wanted = {row: number for number, row in enumerate(dict.fromkeys(of_rows))}
    assert groups.numbers.tolist() == [wanted[row] for row in of_rows]
    found: Sequence[int | None] = groups.starts or [None] * len(groups)
    assert list(zip(groups.keys, found, strict=True)) == [*wanted]


def test_groups_are_numbered_in_the_order_of_their_coming() -> None:
    groups = group_columns(columns_of([5, 3, 5, 9], INT), None).listed()
    assert (groups.keys, groups.numbers.tolist()) == ([5, 3, 9], [0, 1, 0, 2])


def test_more_groups_than_short_numbers_are_sorted_too() -> None:
    numbers = np.arange(70_000)[::-1].copy()
    places, ends = in_groups(numbers, len(numbers))
    assert (places == numbers).all()
    assert ends == list(range(1, 70_001))


def test_more_rows_than_can_be_added_without_loss_are_refused() -> None:
    many = np.zeros(MAX_ROWS + 1, np.int64)
    with pytest.raises(ValueError, match="too many"):
        int_sums(many, many, 1)


MICROS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**7), 10**7)


@given(
    times=st.lists(MICROS, min_size=1, max_size=20),
    size=st.integers(1, 50),
    offset=st.integers(-9, 9),
    period=st.integers(1, 10),
)
def test_windows_of_a_column_of_times_are_those_of_each_time(
    times: list[int], size: int, offset: int, period: int
) -> None:
    for fn in (window.FixedWindows(size, offset), window.SlidingWindows(size * period, period)):
        on_columns = column_assigner(fn)
        assert on_columns is not None
        found = on_columns(TimeColumns(np.array(times), GLOBAL, PANE_INFO_UNKNOWN))
        if found is None:  # so far out that 64 bits are not enough
            assert max(map(abs, times)) > 2**62
            continue
        old = Columns(times, [GLOBAL] * len(times), [PANE_INFO_UNKNOWN] * len(times))
        assert row_meta(found).windows == assigner(fn)([None] * len(times), old)
        assert row_meta(found).times == times
