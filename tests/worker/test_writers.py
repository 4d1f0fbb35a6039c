"""Writers send every element to the shard it belongs to, in rows of bounded size."""

from __future__ import annotations

import marshal
from collections import Counter
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms import window
from apache_beam.transforms.window import GlobalWindow, WindowedValue

from headrace.errors import HeadraceError
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import Fanout, LocalWriter, RowWriter
from headrace.worker.sideinputs.side_inputs import SideChannel, SideInputs

INT = coders.VarIntCoder()
ANY = coders.FastPrimitivesCoder()
INTS = coders.WindowedValueCoder(INT, GlobalWindowCoder())
PAIRS = coders.WindowedValueCoder(coders.TupleCoder([INT, ANY]), GlobalWindowCoder())
WHOLE = (GlobalWindow(),)


def at(value: Any, second: int = 0) -> WindowedValue:
    return WindowedValue(value, second, WHOLE)


def read(row: SuperTuple, coder: Any) -> list[Any]:
    stream = create_InputStream(row.payload)
    found = []
    while stream.size() > 0:
        found.append(coder.get_impl().decode_from_stream(stream, True).value)
    return found


def row_writer(rows: list[SuperTuple], coder: Any = INTS, **more: Any) -> RowWriter:
    settings: dict[str, Any] = {"shards": 3, "first_shard": 0, "super_tuple_bytes": 1 << 20}
    return RowWriter(7, coder, rows.append, **{**settings, **more})


def test_elements_without_a_key_are_dealt_out_evenly() -> None:
    rows: list[SuperTuple] = []
    writer = row_writer(rows)
    writer.write(list(range(10)), at(None))
    assert rows == []  # held until there is enough, or the end
    writer.flush()
    assert sorted(row.elements for row in rows) == [3, 3, 4]
    assert sorted(value for row in rows for value in read(row, INTS)) == list(range(10))
    assert {row.channel for row in rows} == {7}


def test_tasks_start_dealing_at_shards_of_their_own() -> None:
    firsts = []
    for shard in range(3):
        rows: list[SuperTuple] = []
        writer = row_writer(rows, first_shard=shard)
        writer.process(at(1))
        writer.flush()
        firsts.append(rows[0].shard)
    assert sorted(firsts) == [0, 1, 2]


def test_a_row_says_its_place_in_the_sequence() -> None:
    rows: list[SuperTuple] = []
    writer = row_writer(rows, shards=1)
    for second in (5, -3, 9):
        writer.process(at(1, second))
    writer.flush()
    writer.process(at(1, 20))
    writer.flush()
    assert [(r.seq, r.elements) for r in rows] == [(0, 3), (3, 1)]


def test_a_row_is_sent_as_soon_as_it_is_large_enough() -> None:
    rows: list[SuperTuple] = []
    writer = row_writer(rows, coder=PAIRS, shards=1, super_tuple_bytes=200)
    for i in range(10):
        writer.process(at((i, "x" * 100)))
    assert len(rows) == 5
    assert all(200 <= len(row.payload) < 330 for row in rows)


def test_a_keyed_row_goes_to_the_shard_of_its_key() -> None:
    rows: list[SuperTuple] = []
    shard_of = ShardOf(INT, 3)
    writer = row_writer(rows, coder=PAIRS, shard_of=shard_of)
    writer.write([(key, None) for key in range(50)], at(None))
    writer.flush()
    for row in rows:
        assert {shard_of.any(key) for key, _ in read(row, PAIRS)} == {row.shard}
    assert sum(row.elements for row in rows) == 50


def test_a_side_input_is_copied_to_every_shard_and_read_first() -> None:
    rows: list[SuperTuple] = []
    writer = row_writer(rows, rank=Rank.SIDE_INPUT, copy_to_all=True)
    writer.write([1, 2], at(None))
    writer.flush()
    assert [(r.shard, r.rank, read(r, INTS)) for r in rows] == [
        (shard, Rank.SIDE_INPUT, [1, 2]) for shard in range(3)
    ]


def test_a_neighbouring_stage_gets_the_very_objects() -> None:
    pushed: list[Any] = []
    writer = LocalWriter(lambda values, meta: pushed.extend(values))
    text = "what cannot change may wait"
    writer.process(at(text))
    assert pushed == []
    writer.write([1], at(None))
    assert pushed == [text, 1]  # in the order they were given
    assert pushed[0] is text
    writer.flush()
    assert pushed == [text, 1]


def test_what_may_change_is_handed_to_a_neighbouring_stage_at_once() -> None:
    pushed: list[Any] = []
    writer = LocalWriter(lambda values, meta: pushed.extend(values))
    thing = [1]
    writer.process(at("before"))
    writer.process(at(thing))
    assert pushed == ["before", thing]
    assert pushed[1] is thing


def test_a_fanout_gives_everything_to_all() -> None:
    first: list[Any] = []
    second: list[Any] = []
    writer = Fanout(
        [LocalWriter(lambda v, m: first.extend(v)), LocalWriter(lambda v, m: second.extend(v))]
    )
    writer.process(at(1))
    writer.write([2, 3], at(None))
    writer.flush()
    assert first == second == [1, 2, 3]


def group_writer(rows: list[SuperTuple], **more: Any) -> GroupWriter:
    settings: dict[str, Any] = {"shards": 2, "super_tuple_bytes": 1 << 16}
    return GroupWriter(0, PAIRS, Grouping.GLOBAL, rows.append, **{**settings, **more})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, PayloadKind.GROUPED), ("x", PayloadKind.GROUPED), (None, PayloadKind.GROUPED),
        ((1, "x"), PayloadKind.GROUPED), ([1, "x"], PayloadKind.GROUPED),
        ({"a": 1}, PayloadKind.KEYED_ROWS), ([[1]], PayloadKind.KEYED_ROWS),
        ((1, (2,)), PayloadKind.KEYED_ROWS),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values_travel_in_bulk_and_others_as_rows(value: Any, kind: PayloadKind) -> None:
    for whole in (True, False):
        rows: list[SuperTuple] = []
        writer = group_writer(rows)
        if whole:
            writer.write([(1, value), (1, value)], at(None))
        else:
            writer.process(at((1, value)))
            writer.process(at((1, value)))
        writer.flush()
        assert [(row.kind, row.elements) for row in rows] == [(kind, 2)]


@pytest.mark.parametrize("others", [[], [(2, {})]], ids=["among lists", "among others"])
def test_a_list_changed_after_it_was_written_is_sent_as_it_was(others: list[Any]) -> None:
    rows: list[SuperTuple] = []
    writer = group_writer(rows, shards=1)
    held = [1, 2]
    writer.write([(1, held), *others], at(None))
    held.clear()
    writer.flush()
    (bulk,) = [row for row in rows if row.kind == PayloadKind.GROUPED]
    assert marshal.loads(bulk.payload) == ([1], [[[1, 2]]])


def test_a_local_grouping_keeps_all_keys_on_its_own_shard() -> None:
    rows: list[SuperTuple] = []
    writer = group_writer(rows, fixed_shard=1)
    writer.write([(key, key if key % 2 else {}) for key in range(20)], at(None))
    writer.flush()
    assert {row.shard for row in rows} == {1}
    assert Counter(row.kind for row in rows) == {PayloadKind.GROUPED: 1, PayloadKind.KEYED_ROWS: 1}


def test_bulk_payloads_settle_near_the_size_that_was_asked_for() -> None:
    rows: list[SuperTuple] = []
    writer = group_writer(rows, super_tuple_bytes=4_096)
    for start in range(0, 200_000, 1_000):
        writer.write([(i, i) for i in range(start, start + 1_000)], at(None))
    writer.flush()
    assert sum(row.elements for row in rows) == 200_000
    largest = max(len(row.payload) for row in rows[len(rows) // 2 :])
    assert largest < 16 * 4_096


def side_channel(pairs: list[Any], coder: Any) -> SideChannel:
    channel = SideChannel(coder)
    rows: list[SuperTuple] = []
    writer = row_writer(rows, coder=coder, copy_to_all=True, shards=1)
    for element in pairs:
        writer.process(element)
    writer.flush()
    for row in rows:
        channel.add_rows(row.payload)
    return channel


def test_a_side_input_is_kept_by_window() -> None:
    first, second = window.IntervalWindow(0, 10), window.IntervalWindow(10, 20)
    coder = coders.WindowedValueCoder(INT, coders.coders.IntervalWindowCoder())
    elements = [
        WindowedValue(1, 0, (first,)), WindowedValue(2, 0, (first, second)),
        WindowedValue(3, 0, (second,)),
    ]  # fmt: skip
    channel = side_channel(elements, coder)
    encode = coders.coders.IntervalWindowCoder().encode
    assert channel.values(encode(first)) == [1, 2]
    assert channel.values(encode(second)) == [2, 3]
    assert channel.values(encode(window.IntervalWindow(20, 30))) == []


def test_a_multimap_finds_keys_by_their_encoding() -> None:
    coder = coders.WindowedValueCoder(coders.TupleCoder([ANY, INT]), GlobalWindowCoder())
    channel = side_channel([at((1, 10)), at((True, 20)), at((1.0, 30)), at((1, 11))], coder)
    found = channel.multimap(GlobalWindowCoder().encode(WHOLE[0]))
    assert [(repr(key), values) for key, values in found.values()] == [
        ("1", [10, 11]), ("True", [20]), ("1.0", [30]),
    ]  # fmt: skip


def test_a_read_of_an_unknown_kind_of_state_is_refused() -> None:
    key = beam_fn_api_pb2.StateKey(runner=beam_fn_api_pb2.StateKey.Runner(key=b"x"))
    with pytest.raises(HeadraceError, match="state of kind runner"):
        SideInputs().read(key)
