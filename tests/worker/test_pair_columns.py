"""Pairs that reach a grouping as columns are those that objects bring, on the same shards."""

from __future__ import annotations

import marshal
from typing import Any

import numpy as np
import pytest
from apache_beam import coders
from apache_beam.coders import FastPrimitivesCoder, TupleCoder, VarIntCoder, WindowedValueCoder
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan.shapes import FLOAT, INT, TEXT, ScalarShape, TupleShape, nullable
from headrace.worker.batched.batches import GLOBAL
from headrace.worker.batched.column_batches import Started, TimeColumns, row_meta
from headrace.worker.columns.values import of_objects
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple

ANY = FastPrimitivesCoder()
WORDS = st.text(max_size=3)
LONG = st.integers(-(2**63), 2**63 - 1)
#: Shape of a value, what makes one, and a coder for it.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "int": (INT, LONG, VarIntCoder()),
    "float": (FLOAT, st.floats(allow_nan=False), ANY),
    "text or none": (nullable(TEXT), st.none() | WORDS, ANY),
    "tuple": (TupleShape((INT, TEXT)), st.tuples(LONG, WORDS), ANY),
    "text": (TEXT, WORDS, coders.StrUtf8Coder()),
}


def sent(values: Any, meta: Any, coder: Any, grouping: Grouping, *, columns: bool) -> Any:
    """Write a batch; give what goes to each shard, each key's values in their order."""
    found: list[SuperTuple] = []
    windows = GlobalWindowCoder() if grouping is Grouping.GLOBAL else IntervalWindowCoder()
    pair_coder = TupleCoder([coders.registry.get_coder(type(values.objects()[0][0])), coder])
    writer = GroupWriter(
        1, WindowedValueCoder(pair_coder, windows), grouping, found.append, shards=3,
        super_tuple_bytes=100,
    )
    if columns:
        assert writer.takes_columns
        writer.write_columns(values, meta)
    else:
        writer.write(list(values.objects()), row_meta(meta))
    writer.flush()
    return [(row.shard, row.kind, row.elements, row.payload) for row in found]


def batch(pairs: Any, shape: Any) -> Any:
    made = of_objects(pairs, shape)
    assert made is not None
    return made


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("key", [(INT, LONG), (TEXT, WORDS)], ids=["int", "text"])
@settings(max_examples=25)
@given(data=st.data())
def test_a_grouping_is_sent_the_same_bytes_by_columns_and_by_objects(
    data: Any, key: tuple[ScalarShape, Any], kind: str
) -> None:
    shape, made, coder = VALUES[kind]
    pairs = data.draw(st.lists(st.tuples(key[1], made), min_size=1, max_size=30))
    values = batch(pairs, TupleShape((key[0], shape)))
    meta = TimeColumns(np.zeros(len(pairs), np.int64), GLOBAL, PANE_INFO_UNKNOWN)
    by_columns = sent(values, meta, coder, Grouping.GLOBAL, columns=True)
    assert by_columns == sent(values, meta, coder, Grouping.GLOBAL, columns=False)


@pytest.mark.parametrize(
    "coder", [ANY, TupleCoder([TupleCoder([VarIntCoder()]), coders.StrUtf8Coder()])]
)
def test_tuples_within_tuples_are_sent_in_bulk_where_they_came_as_columns(coder: Any) -> None:
    pairs = [(i % 3, ((i,), f"w{i}")) for i in range(40)]
    values = batch(pairs, TupleShape((INT, TupleShape((TupleShape((INT,)), TEXT)))))
    meta = TimeColumns(np.zeros(len(pairs), np.int64), GLOBAL, PANE_INFO_UNKNOWN)
    found: dict[int, list[Any]] = {}
    for _, kind, _, payload in sent(values, meta, coder, Grouping.GLOBAL, columns=True):
        assert kind is PayloadKind.GROUPED
        found |= zip(*marshal.loads(payload), strict=True)
    assert found == {key: [v for k, v in pairs if k == key] for key in range(3)}


def test_a_grouping_by_windows_is_sent_the_same_bytes() -> None:
    pairs = [(i % 5, i) for i in range(100)]
    values = batch(pairs, TupleShape((INT, INT)))
    spans = {s: (window.IntervalWindow(s, s + 10),) for s in (0, 10)}
    starts = np.array([0 if i < 60 else 10 for i in range(100)])
    meta = TimeColumns(np.arange(100), Started(starts, spans), PANE_INFO_UNKNOWN)
    args = (values, meta, VarIntCoder(), Grouping.INTERVALS)
    assert sent(*args, columns=True) == sent(*args, columns=False)


def test_a_value_too_large_for_bulk_travels_alone() -> None:
    pairs = [(1, "x" * (1 << 21)), (2, "y")]
    values = batch(pairs, TupleShape((INT, TEXT)))
    meta = TimeColumns(np.zeros(2, np.int64), GLOBAL, PANE_INFO_UNKNOWN)
    args = (values, meta, ANY, Grouping.GLOBAL)
    assert sent(*args, columns=True) == sent(*args, columns=False)
