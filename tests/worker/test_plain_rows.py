"""Pairs for stateful steps: in bulk or one by one, a shard gets them in their order."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.coders import FastPrimitivesCoder, StrUtf8Coder, TupleCoder, WindowedValueCoder
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils import windowed_value
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.worker.batched.batches import Columns, elements
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.plain_rows import PlainRowWriter
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple
from headrace.worker.exchange.writers import RowWriter
from headrace.worker.task.row_batches import row_batches

ANY = FastPrimitivesCoder()
PANES = (
    windowed_value.PANE_INFO_UNKNOWN,
    windowed_value.PaneInfo(True, False, windowed_value.PaneInfoTiming.EARLY, 3, -1),
)
SETS = ((IntervalWindow(0, 10),), (IntervalWindow(0, 10), IntervalWindow(5, 15)))


def coder_of(windows: Any) -> Any:
    return WindowedValueCoder(TupleCoder([ANY, ANY]), windows)


def written(batches: list[tuple[list[Any], Any]], coder: Any, shards: int, size: int) -> Any:
    sent: list[SuperTuple] = []
    rows = RowWriter(
        0, coder, sent.append, shards=shards, first_shard=0, super_tuple_bytes=size,
        shard_of=ShardOf(ANY, shards),
    )
    writer = PlainRowWriter(
        0, coder, rows, PlainPairs(ANY, ANY), sent.append, shards=shards, super_tuple_bytes=size
    )
    for values, meta in batches:
        if len(values) == 1:
            (element,) = elements(values, meta)
            writer.process(element)
        else:
            writer.write(values, meta)
    writer.flush()
    return sent


def read(rows: list[SuperTuple], coder: Any) -> list[Any]:
    decode = coder.get_impl().decode_from_stream
    found = []
    for row in rows:
        part = [e for values, meta in row_batches(row, decode, 5) for e in elements(values, meta)]
        assert len(part) == row.elements
        found += part
    return found


def seen(element: Any) -> tuple[Any, ...]:
    pane = element.pane_info
    return (
        repr(element.value), element.timestamp_micros, tuple(element.windows), pane.index,
        pane.timing,
    )


pairs = st.tuples(
    st.sampled_from(["a", "b", 3, ("t", 1), 2.5, True]),
    st.integers(0, 9) | st.sampled_from([{"not": "plain"}, [1, 2], (1, "x"), None]),
)
times = st.integers(-5_000, 5_000)
batch = st.lists(pairs, min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(batch, st.data()), max_size=8), st.integers(1, 3), st.booleans())
def test_a_shard_gets_what_was_written_in_its_order(
    made: list[Any], shards: int, in_windows: bool
) -> None:
    coder = coder_of(IntervalWindowCoder() if in_windows else GlobalWindowCoder())
    sets = st.sampled_from(SETS if in_windows else [(GlobalWindow(),)])
    batches = []
    for values, data in made:
        if data.draw(st.booleans()):
            one = (data.draw(times), data.draw(sets), data.draw(st.sampled_from(PANES)))
            batches.append((values, windowed_value.create(None, *one)))
        else:
            size = len(values)
            each: Any = [data.draw(sets)] * size
            if data.draw(st.booleans()):
                each = [data.draw(sets) for _ in values]
            moments = data.draw(st.lists(times, min_size=size, max_size=size))
            batches.append((values, Columns(moments, each, [PANES[0]] * size)))
    rows = written(batches, coder, shards, 200)
    impl = coder.get_impl()
    whole = [e for values, meta in batches for e in elements(values, meta)]
    for shard in range(shards):
        mine = [e for e in whole if ShardOf(ANY, shards).any(e.value[0]) == shard]
        found = read([row for row in rows if row.shard == shard], coder)
        assert list(map(seen, found)) == [seen(impl.decode(impl.encode(e))) for e in mine]


def test_pairs_that_end_with_a_text_are_read_as_they_were_written() -> None:
    """Its length stands before it inside of a row, and not where it is alone."""
    coder = WindowedValueCoder(TupleCoder([StrUtf8Coder(), StrUtf8Coder()]), GlobalWindowCoder())
    values = [(f"k{number % 3}", "\u0001\u00ec") for number in range(20)]
    meta = windowed_value.create(None, 7, (GlobalWindow(),), PANES[0])
    rows = written([(values, meta)], coder, 2, 200)
    assert {row.kind for row in rows} == {PayloadKind.PLAIN_ROWS}
    assert sorted(e.value for e in read(rows, coder)) == sorted(values)


def test_plain_pairs_travel_together() -> None:
    coder = coder_of(GlobalWindowCoder())
    meta = windowed_value.create(None, 7_000, (GlobalWindow(),), PANES[0])
    batches = [([(f"k{i % 10}", (i, i)) for i in range(100)], meta)] * 5
    (row,) = written(batches, coder, 1, 65_536)
    assert (row.kind, row.elements) == (PayloadKind.PLAIN_ROWS, 500)


def test_a_row_for_a_grouping_is_refused() -> None:
    row = SuperTuple(0, 1, 4, PayloadKind.GROUPED, 0, 1, b"")
    with pytest.raises(TransportError, match="channel 4 was sent a payload of kind 2"):
        list(row_batches(row, lambda *_: None, 5))
