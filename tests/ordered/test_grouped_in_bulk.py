"""Ordered groupings: values of a key come in the order of their numbers, however they travel."""

from __future__ import annotations

import marshal
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder, TupleCoder, WindowedValueCoder
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan.order import SOURCE_WIDTH, PortOrder
from headrace.testing import Collected, LocalRunner
from headrace.worker.batched.batches import Columns
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.ordered_groups import OrderedGroupWriter
from headrace.worker.exchange.ordered_writer import OrderedWriter, by_key, keyed_row_encoder
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.task.element_merger import ElementMerger, as_grouped

SHARDS = 3
ORDER = PortOrder(shift=0, width=SOURCE_WIDTH)
ANY = FastPrimitivesCoder()
WINDOWS = (IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(10, 20))
PANE = beam.utils.windowed_value.PANE_INFO_UNKNOWN


def coder_of(by_window: bool) -> Any:
    windows = IntervalWindowCoder() if by_window else GlobalWindowCoder()
    return WindowedValueCoder(TupleCoder([ANY, ANY]), windows)


class Writer:
    """One task's writer into a grouping, and the rows that it sent."""

    def __init__(self, by_window: bool, super_tuple_bytes: int = 60) -> None:
        self.sent: list[SuperTuple] = []
        coder, send = coder_of(by_window), self.sent.append
        rows = OrderedWriter(
            0, keyed_row_encoder(coder), by_key(coder, SHARDS), [(i,) for i in range(SHARDS)],
            send, order=ORDER, kind=PayloadKind.KEYED_ROWS, rank=Rank.DATA,
            super_tuple_bytes=super_tuple_bytes,
        )
        self.writer = OrderedGroupWriter(
            0, rows, PlainPairs(ANY, ANY), ShardOf(ANY, SHARDS), range(SHARDS), send,
            by_window=by_window, order=ORDER, super_tuple_bytes=super_tuple_bytes,
        )


def read(rows: list[SuperTuple], by_window: bool) -> dict[Any, list[Any]]:
    """Give what groupings on all shards make of rows, as Spark would bring them."""
    windowing = beam.transforms.core.Windowing(
        window.FixedWindows(10) if by_window else window.GlobalWindows()
    )
    found: dict[Any, list[Any]] = {}

    def push(groups: list[Any], meta: Any) -> None:
        (its,) = meta.windows
        for key, values in groups:
            assert (its, repr(key)) not in found
            found[its, repr(key)] = list(values)

    kind = Grouping.INTERVALS if by_window else Grouping.GLOBAL
    for shard in range(SHARDS):
        merger = ElementMerger(ORDER.number_bytes)
        grouper = make_grouper(coder_of(by_window), windowing, kind, 1 << 30)
        mine = sorted((r for r in rows if r.shard == shard), key=lambda r: r.numbers)
        merged = [m for row in mine for m in merger.add(row)] + list(merger.flush())
        for row in merged:
            grouper.add(row.kind, row.elements, row.payload)
        grouper.emit(push)
    return found


keys = st.sampled_from(["a", "b", 3, ("t", 1), 2.5])  # the last is not faithful, and goes as a row
values = st.integers(0, 9) | st.sampled_from([{"not": "plain"}, [1, 2], (1, "x"), None])
written = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.tuples(keys, values), min_size=1, max_size=6)),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(written, st.booleans(), st.integers(1, 4))
def test_each_key_gets_its_values_in_the_order_of_their_numbers(
    batches: list[Any], by_window: bool, limit: int
) -> None:
    """Three writers whose numbers interleave, plain pairs and others in any mixture."""
    writers = [Writer(by_window) for _ in range(3)]
    for made in writers:
        made.writer._fill.limit = limit
    expected: dict[Any, list[Any]] = {}
    number = 0
    for which, batch in batches:
        sets: list[Any] = []
        for key, value in batch:
            its = WINDOWS[number % 3 : number % 3 + 2] if by_window else (GlobalWindow(),)
            sets.append(its)
            number += 1
            for one in its:
                expected.setdefault((one, repr(key)), []).append(value)
        numbers = range(number - len(batch), number)
        meta = Columns([0] * len(batch), sets, [PANE] * len(batch), numbers)
        writers[which].writer.write(batch, meta)
    for made in writers:
        made.writer.flush()
    assert read([row for made in writers for row in made.sent], by_window) == expected


def test_plain_pairs_travel_together_and_their_numbers_as_runs() -> None:
    made = Writer(by_window=False, super_tuple_bytes=65_536)
    made.writer._fill.limit = 10_000
    pairs = [("only", i) for i in range(5_000)]
    for start in range(0, 5_000, 500):
        part = pairs[start : start + 500]
        where = [(GlobalWindow(),)] * 500
        meta = Columns([0] * 500, where, [PANE] * 500, range(start, start + 500))
        made.writer.write(part, meta)
    made.writer.flush()
    (row,) = made.sent
    assert (row.kind, row.elements) == (PayloadKind.NUMBERED_PAIRS, 5_000)
    assert len(row.numbers) < 60
    grouped = as_grouped(row)
    assert grouped.kind == PayloadKind.GROUPED
    assert marshal.loads(grouped.payload) == (["only"], [list(range(5_000))])


def test_a_list_that_its_maker_changes_later_travels_as_it_was() -> None:
    made = Writer(by_window=False)
    value = [1]
    made.writer.write([("a", value)], Columns([0], [(GlobalWindow(),)], [PANE], range(1)))
    value.append(2)
    made.writer.flush()
    assert read(made.sent, by_window=False) == {(GlobalWindow(), "'a'"): [[1]]}


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_values_of_a_group_are_in_order_behind_elements_that_were_dealt_out(shards: int) -> None:
    """Every third value is no plain one; the source's order is what one shard would keep."""

    def spoilt(i: int) -> Any:
        return (i % 4, {i} if i % 3 == 0 and i > 500 else i)

    def listed(group: Any) -> Any:
        return group[0], repr([next(iter(v)) if type(v) is set else v for v in group[1]])

    into = Collected()
    options = PipelineOptions([f"--shards={shards}", "--ordered", "--super_tuple_bytes=300"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        _ = (
            p | beam.Create(range(1_200)) | beam.Reshuffle() | beam.Map(spoilt)
            | beam.GroupByKey()
            | beam.Map(listed).with_output_types(tuple[int, str])
            | into.sink("key long, found string")
        )
    rows = [row for epoch in into.epochs.values() for row in epoch]
    assert sorted(rows) == [(k, repr(list(range(k, 1_200, 4)))) for k in range(4)]
