"""Rows of super tuples survive the way through Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.worker.exchange.super_tuples import (
    SCHEMA,
    SPARK_SCHEMA,
    PayloadKind,
    Rank,
    SuperTuple,
    from_batch,
    to_batch,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.builds(
    SuperTuple, INT32, INT32, INT32, INT32, INT64, INT64, st.binary(max_size=50)
)


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_rows_come_back_as_they_went_in(rows: list[SuperTuple]) -> None:
    assert list(from_batch(to_batch(rows))) == rows


def test_columns_are_found_by_name_as_an_engine_may_reorder_them() -> None:
    row = SuperTuple(1, Rank.DATA, 3, PayloadKind.ROWS, 5, 6, b"seven")
    shuffled = to_batch([row]).select(list(reversed(SCHEMA.names)))
    assert list(from_batch(shuffled)) == [row]


def test_a_number_too_large_for_its_column_is_refused() -> None:
    with pytest.raises((pa.ArrowInvalid, OverflowError)):
        to_batch([SuperTuple(1 << 31, 0, 0, 0, 0, 0, b"")])


def test_spark_is_told_the_same_names_and_types() -> None:
    words = {pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}
    said = ", ".join(f"{field.name} {words[field.type]} not null" for field in SCHEMA)
    assert said == SPARK_SCHEMA


def test_side_inputs_are_read_before_data_and_data_before_reports() -> None:
    assert sorted(Rank) == [Rank.SIDE_INPUT, Rank.DATA, Rank.REPORT]
