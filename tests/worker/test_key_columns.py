"""Keys that are records cross an exchange as columns, and come back as their coder has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from apache_beam import Row, coders
from apache_beam.coders import FastPrimitivesCoder, RowCoder, TupleCoder, WindowedValueCoder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.transforms import core, window
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.shapes import row_record, shape_of_hint
from headrace.plan.shapes import FLOAT, INT, TEXT, Shape, TupleShape
from headrace.worker.batched.batches import GLOBAL
from headrace.worker.batched.column_batches import TimeColumns, row_meta
from headrace.worker.columns.values import ColumnValues, of_objects
from headrace.worker.exchange import group_writer
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import grouping_of
from headrace.worker.exchange.key_columns import KeyColumns
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple
from headrace.worker.grouping.choose_bounded import make_grouper

ANY = FastPrimitivesCoder()


class Place(NamedTuple):
    """A key of the user's."""

    number: int
    word: str


class Weighed(NamedTuple):
    """A record that is no key for columns."""

    number: int
    weight: float


def promised(cls: type) -> Shape:
    found = shape_of_hint(cls)
    assert found is not None
    return found


PLACE = promised(Place)
coders.registry.register_coder(Place, RowCoder)
LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 1)
WORDS = st.text(st.characters(codec="utf-8"), max_size=2)
PLACES = st.builds(Place, LONG, WORDS)
ROWS = RowTypeConstraint.from_fields([("number", int), ("word", str)])
LOOSE = RowTypeConstraint.from_fields([("number", Any), ("word", Any)])
CODERS: dict[str, Any] = {
    "of its class": RowCoder.from_type_hint(Place, coders.registry),
    "of rows": RowCoder.from_type_hint(ROWS, coders.registry),
    "of rows of anything": RowCoder.from_type_hint(LOOSE, coders.registry),
}


def columns_of(values: list[Any], shape: Shape) -> ColumnValues:
    made = of_objects(values, shape)
    assert made is not None
    return made


def there_and_back(coder: Any, key: Any) -> Any:
    return coder.decode(coder.encode(key))


@pytest.mark.parametrize("name", CODERS)
@given(keys=st.lists(PLACES, min_size=1, max_size=20), shards=st.integers(1, 9))
def test_records_come_back_as_their_coder_gives_them_and_go_to_its_shards(
    name: str, keys: list[Place], shards: int
) -> None:
    coder = CODERS[name]
    given_back = KeyColumns(coder).given_back(columns_of(keys, PLACE))
    assert given_back is not None
    wanted = [there_and_back(coder, key) for key in keys]
    found = given_back.objects()
    assert [*map(repr, found)] == [*map(repr, wanted)]
    assert {*map(type, found)} == {*map(type, wanted)}
    where = ShardOf(coder, shards)
    assert where.of_columns(given_back).tolist() == [where.any(key) for key in keys]


def test_keys_for_which_a_coder_writes_bytes_of_its_own_go_as_objects() -> None:
    key = Place(1, "a")
    for coder in (ANY, TupleCoder([ANY, ANY]), coders.PickleCoder()):
        assert KeyColumns(coder).given_back(columns_of([key], PLACE)) is None
    narrow = RowTypeConstraint.from_fields([("number", np.int32), ("word", str)])
    other = RowTypeConstraint.from_fields([("word", str), ("number", int)])
    for hint in (narrow, other):
        coder = RowCoder.from_type_hint(hint, coders.registry)
        assert KeyColumns(coder).given_back(columns_of([key], PLACE)) is None


def test_keys_with_floats_or_other_tuples_inside_go_as_objects() -> None:
    shape = promised(Weighed)
    coder = RowCoder.from_type_hint(Weighed, coders.registry)
    assert KeyColumns(coder).given_back(columns_of([Weighed(1, -0.0)], shape)) is None
    for odd in (TupleShape((INT, FLOAT)), TupleShape((INT, TupleShape((TEXT,))))):
        key = (1, 0.0) if odd.items[1] == FLOAT else (1, ("a",))
        assert KeyColumns(ANY).given_back(columns_of([key], odd)) is None
    strict = TupleCoder([coders.VarIntCoder(), coders.VarIntCoder()])
    pair = columns_of([(1, "a")], TupleShape((INT, TEXT)))
    assert KeyColumns(strict).given_back(pair) is None
    assert KeyColumns(ANY).given_back(pair) is pair


@given(keys=st.lists(PLACES, min_size=1, max_size=5))
def test_rows_come_back_as_their_coder_gives_them(keys: list[Place]) -> None:
    shape = replace(row_record(("number", "word")), items=(INT, TEXT))
    rows = [Row(number=key.number, word=key.word) for key in keys]
    given_back = KeyColumns(CODERS["of rows"]).given_back(columns_of(rows, shape))
    assert given_back is not None
    wanted = [there_and_back(CODERS["of rows"], row) for row in rows]
    assert [*map(repr, given_back.objects())] == [*map(repr, wanted)]
    assert {*map(type, given_back.objects())} == {*map(type, wanted)}


class Taker:
    """What stands behind a grouping."""

    takes_columns = False

    def __init__(self) -> None:
        self.found: dict[str, list[Any]] = {}
        self.types: set[type] = set()

    def __call__(self, groups: Any, meta: Any) -> None:
        for key, values in groups:
            assert repr(key) not in self.found
            self.types.add(type(key))
            self.found[repr(key)] = list(values)


@pytest.mark.parametrize("name", CODERS)
@pytest.mark.parametrize("memory", [1 << 30, 1])
@settings(max_examples=25)
@given(
    batches=st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(PLACES, LONG), min_size=1, max_size=9)),
        min_size=1, max_size=4,
    )
)
def test_records_of_columns_meet_those_of_rows_in_one_group(
    name: str, memory: int, batches: list[Any]
) -> None:
    windowing = core.Windowing(window.GlobalWindows())
    coder = WindowedValueCoder(TupleCoder([CODERS[name], ANY]), GlobalWindowCoder())
    sent: list[SuperTuple] = []
    writer = GroupWriter(
        1, coder, grouping_of(windowing), sent.append, shards=1, super_tuple_bytes=100
    )
    assert writer.takes_columns
    wanted: dict[str, list[int]] = {}
    with patch.object(group_writer, "FEW_ROWS", 4):
        for columns, pairs in batches:
            meta = TimeColumns(np.zeros(len(pairs), np.int64), GLOBAL, PANE_INFO_UNKNOWN)
            if columns:
                writer.write_columns(columns_of(pairs, TupleShape((PLACE, INT))), meta)
            else:
                writer.write(pairs, row_meta(meta))
            writer.flush()
            for key, value in pairs:
                wanted.setdefault(repr(there_and_back(CODERS[name], key)), []).append(value)
    kinds = {row.kind for row in sent}
    assert (PayloadKind.KEYED_COLUMNS in kinds) == any(columns for columns, _ in batches)
    grouper = make_grouper(coder, windowing, grouping_of(windowing), memory)
    for row in sent:
        grouper.add(row.kind, row.elements, row.payload)
    taker = Taker()
    grouper.emit(taker)
    assert {k: sorted(v) for k, v in taker.found.items()} == {
        k: sorted(v) for k, v in wanted.items()
    }
    assert taker.types == {type(there_and_back(CODERS[name], batches[0][1][0][0]))}
