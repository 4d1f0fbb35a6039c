"""Pairs that cross an exchange as columns come to the shards and groups that objects come to."""

from __future__ import annotations

from collections import defaultdict
from itertools import cycle
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from apache_beam import coders
from apache_beam.coders import FastPrimitivesCoder, TupleCoder, WindowedValueCoder
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.transforms import combiners, core, window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.plan.shapes import (
    BYTES,
    FLOAT,
    INT,
    TEXT,
    FixedList,
    Shape,
    TupleShape,
    nullable,
)
from headrace.plan.slices import Slices
from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import GLOBAL, elements
from headrace.worker.batched.column_batches import Started, TimeColumns, as_rows, row_meta
from headrace.worker.batched.known_combines import builtin_of, known_combine
from headrace.worker.columns.values import of_objects
from headrace.worker.exchange import group_writer
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import grouping_of
from headrace.worker.exchange.keyed_columns import read_keyed
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.grouping.column_tables import Merging
from headrace.worker.grouping.slices import Combination
from tests.worker.test_key_columns import CODERS, PLACE, Place

ANY = FastPrimitivesCoder()
SECOND = 1_000_000
LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
WORDS = st.text(st.characters(codec="utf-8"), max_size=3)
KEYS: dict[str, tuple[Any, Any]] = {
    "int": (INT, LONG), "text": (TEXT, WORDS), "bytes": (BYTES, st.binary(max_size=3)),
    "pair": (TupleShape((INT, TEXT)), st.tuples(LONG, WORDS)),
    "triple": (
        TupleShape((TEXT, BYTES, INT)), st.tuples(WORDS, st.binary(max_size=2), st.integers(0, 1)),
    ),
    "single": (TupleShape((INT,)), st.tuples(LONG)),
}
#: Few of them, so that they meet.
FEW_KEYS: list[tuple[Shape, Any, Any]] = [
    (INT, st.integers(0, 3), ANY),
    (TupleShape((INT, TEXT)), st.tuples(st.integers(0, 1), st.sampled_from("ab")), ANY),
    (PLACE, st.builds(Place, st.integers(0, 1), st.sampled_from("ab")), CODERS["of its class"]),
]
VALUES: dict[str, tuple[Shape, Any]] = {
    "int": (INT, LONG),
    "float": (FLOAT, st.floats()),
    "text or none": (nullable(TEXT), st.none() | WORDS),
    "tuple": (TupleShape((INT, TEXT)), st.tuples(LONG, WORDS)),
    "list": (FixedList((INT,)), st.lists(LONG, min_size=1, max_size=1)),
}
COMBINES: dict[str, Any] = {
    "sum": core.CallableWrapperCombineFn(sum),
    "min": core.CallableWrapperCombineFn(min),
    "max": core.CallableWrapperCombineFn(max),
    "count": combiners.CountCombineFn(),
    "mean": combiners.MeanCombineFn(),
    "several": combiners.SingleInputTupleCombineFn(
        sum, min, combiners.CountCombineFn(), combiners.MeanCombineFn()
    ),
}
WINDOWS: dict[str, Any] = {
    "global": window.GlobalWindows(),
    "fixed": window.FixedWindows(10),
    "sliding": window.SlidingWindows(20, 5),
    "sliced": window.SlidingWindows(20, 5),
}
TIMES = st.integers(-30, 90).map(lambda s: s * SECOND + 1)
SLICES = Slices(size=20 * SECOND, period=5 * SECOND)


def coder_of(key: Any) -> Any:
    if type(key) is tuple:
        return TupleCoder(list(map(coder_of, key)))
    return coders.registry.get_coder(type(key))


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=60)
@given(data=st.data(), shards=st.integers(1, 9))
def test_a_column_of_keys_goes_to_the_shards_of_its_objects(
    data: Any, shards: int, kind: str
) -> None:
    shape, made = KEYS[kind]
    keys = data.draw(st.lists(made, min_size=1, max_size=20))
    column = of_objects(keys, shape)
    assert column is not None
    for coder in (coder_of(keys[0]), ANY):
        where = ShardOf(coder, shards)
        assert where.of_columns(column).tolist() == [where.any(key) for key in keys]


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=30)
@given(data=st.data(), shards=st.integers(2, 5))
def test_each_shard_is_sent_its_keys_with_their_windows(data: Any, shards: int, kind: str) -> None:
    key_shape, made = KEYS[kind]
    pairs = data.draw(st.lists(st.tuples(made, st.integers(0, 9)), min_size=1, max_size=30))
    times = data.draw(st.lists(TIMES, min_size=len(pairs), max_size=len(pairs)))
    fn = WINDOWS["sliding"]
    coder = WindowedValueCoder(TupleCoder([ANY, ANY]), IntervalWindowCoder())
    sent: list[SuperTuple] = []
    writer = GroupWriter(
        1, coder, grouping_of(core.Windowing(fn)), sent.append, shards=shards, super_tuple_bytes=100
    )
    values = of_objects(pairs, TupleShape((key_shape, INT)))
    assert values is not None
    with patch.object(group_writer, "FEW_ROWS", 0):
        writer.write_columns(values, meta_of(fn, times))
        writer.flush()
    where, found = ShardOf(ANY, shards), []
    for row in sent:
        keyed = read_keyed(row.payload)
        places = [0] * len(keyed.pairs) if keyed.places is None else keyed.places.tolist()
        assert row.elements == len(places)
        for (key, value), place in zip(keyed.pairs.objects(), places, strict=True):
            assert where.any(key) == row.shard
            found.append((repr(key), value, sorted(keyed.windows[place])))
    wanted = [
        (repr(key), value, sorted((s.start.micros, s.end.micros) for s in assigned(fn, time)))
        for (key, value), time in zip(pairs, times, strict=True)
    ]
    assert sorted(found) == sorted(wanted)


class Taker:
    """What stands behind a grouping; takes columns if it is told to."""

    def __init__(self, *, takes_columns: bool) -> None:
        self.takes_columns = takes_columns
        self.found: list[tuple[str, str, Any]] = []  # key, window, values
        self.batches = 0

    def __call__(self, groups: Any, meta: Any) -> None:
        for element in elements(groups, meta):
            (only,) = element.windows
            key, values = element.value
            self.found.append((repr(key), repr(only), list(values)))

    def columns(self, values: Any, meta: Any) -> None:
        self.batches += 1
        for rows, its in as_rows(values, meta):
            self(rows, its)


class Exchange:
    """A writer and what it sent."""

    def __init__(self, windowing: core.Windowing, key_coder: Any, *, sliced: bool) -> None:
        is_global = windowing.is_default()
        self.coder = WindowedValueCoder(
            TupleCoder([key_coder, ANY]),
            GlobalWindowCoder() if is_global else IntervalWindowCoder(),
        )
        self.sent: list[SuperTuple] = []
        self.writer = GroupWriter(
            1, self.coder, grouping_of(windowing), self.sent.append, shards=1,
            super_tuple_bytes=100, sliced=sliced,
        )

    def write(self, pairs: list[Any], shape: Shape, meta: Any, *, columns: bool) -> None:
        values = of_objects(pairs, shape)
        assert values is not None
        if columns:
            with patch.object(group_writer, "FEW_ROWS", 0):
                self.writer.write_columns(values, meta)
                self.writer.flush()
        else:
            self.writer.write(list(values.objects()), row_meta(meta))
            self.writer.flush()


def assigned(fn: Any, time: int) -> Any:
    return fn.assign(window.WindowFn.AssignContext(Timestamp(micros=time), None))


def meta_of(fn: Any, times: list[int]) -> TimeColumns:
    if type(fn) is window.GlobalWindows:
        return TimeColumns(np.array(times), GLOBAL, PANE_INFO_UNKNOWN)
    known = {time: tuple(assigned(fn, time)) for time in times}
    return TimeColumns(np.array(times), Started(np.array(times), known), PANE_INFO_UNKNOWN)


def model(fn: Any, pairs: list[Any], times: list[int]) -> dict[tuple[str, str], list[Any]]:
    """Give the values of each key and window, in the order of their coming."""
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for (key, value), time in zip(pairs, times, strict=True):
        for each in assigned(fn, time):
            found[repr(key), repr(each)].append(value)
    return found


BATCHES = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=4)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("windows", ["global", "fixed", "sliding"])
@settings(max_examples=15)
@given(data=st.data(), batches=BATCHES, key=st.sampled_from(sorted(KEYS)))
def test_groups_are_those_of_objects_whichever_way_pairs_travel(
    data: Any, batches: Any, key: str, value: str, windows: str
) -> None:
    (key_shape, keys), (value_shape, values) = KEYS[key], VALUES[value]
    fn = WINDOWS[windows]
    windowing = core.Windowing(fn)
    exchange = Exchange(windowing, ANY, sliced=False)
    all_pairs, all_times = [], []
    for size, columns in batches:
        pairs = data.draw(st.lists(st.tuples(keys, values), min_size=size, max_size=size))
        times = data.draw(st.lists(TIMES, min_size=size, max_size=size))
        shape = TupleShape((key_shape, value_shape))
        exchange.write(pairs, shape, meta_of(fn, times), columns=columns)
        all_pairs += pairs
        all_times += times
    assert any(row.kind == PayloadKind.KEYED_COLUMNS for row in exchange.sent) == any(
        columns for _, columns in batches
    )
    grouper = make_grouper(exchange.coder, windowing, grouping_of(windowing), 1 << 30)
    taker = Taker(takes_columns=True)
    for row in exchange.sent:
        grouper.add(row.kind, row.elements, row.payload)
    grouper.emit(taker)
    wanted = model(fn, all_pairs, all_times)
    # What stands in several windows comes set by set of them, on either way.
    shown = (lambda v: sorted(map(repr, v))) if windows == "sliding" else repr
    assert {(k, w): shown(v) for k, w, v in taker.found} == {g: shown(v) for g, v in wanted.items()}
    assert len(taker.found) == len(wanted)


def accumulators(fn: Any, values: list[int]) -> list[Any]:
    return [fn.compact(fn.add_input(fn.create_accumulator(), value)) for value in values]


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("windows", WINDOWS)
@settings(max_examples=20)
@given(
    data=st.data(), batches=BATCHES, spread=st.booleans(), few_keys=st.sampled_from(FEW_KEYS)
)
def test_accumulators_are_merged_as_the_combine_merges_them(
    data: Any, batches: Any, spread: bool, few_keys: Any, combine: str, windows: str
) -> None:
    fn, combine_fn = WINDOWS[windows], COMBINES[combine]
    known = known_combine(combine_fn)
    assert known is not None
    windowing = core.Windowing(fn)
    sliced = windows == "sliced"
    exchange = Exchange(windowing, few_keys[2], sliced=sliced)
    numbers = st.integers(-5, 5) if spread else LONG
    all_pairs, all_times = [], []
    shape = TupleShape((few_keys[0], known.accumulators.shape))
    for size, columns in batches:
        keys = data.draw(st.lists(few_keys[1], min_size=size, max_size=size))
        drawn = data.draw(st.lists(numbers, min_size=size, max_size=size))
        times = data.draw(st.lists(TIMES, min_size=size, max_size=size))
        pairs = list(zip(keys, accumulators(combine_fn, drawn), strict=True))
        exchange.write(pairs, shape, meta_of(fn, times), columns=columns)
        all_pairs += pairs
        all_times += times
    merge = combine_fn.merge_accumulators
    grouper = make_grouper(
        exchange.coder, windowing, grouping_of(windowing), 1 << 30,
        SLICES if sliced else None, Combination(merge, builtin_of(combine_fn)),
        Merging(known.accumulators, merge, "Combine"),
    )
    for row in exchange.sent:
        grouper.add(row.kind, row.elements, row.payload)
    taker = Taker(takes_columns=True)
    grouper.emit(taker)
    wanted = model(fn, all_pairs, all_times)
    assert {(k, w): repr(merge(v)) for k, w, v in taker.found} == {
        g: repr(merge(v)) for g, v in wanted.items()
    }
    assert len(taker.found) == len(wanted)
    if spread and any(columns for _, columns in batches):
        assert taker.batches
        assert all(len(values) == 1 for _, _, values in taker.found)


class Epochs:
    """A stream's grouping of accumulators, epoch by epoch over one store.

    Epochs with and without columns take turns as `columns` says.
    """

    def __init__(
        self, windows: str, key: Shape, key_coder: Any, combine_fn: Any, *columns: bool
    ) -> None:
        self._key_coder = key_coder
        self._fn = WINDOWS[windows]
        self._windowing = core.Windowing(self._fn)
        self._sliced = windows == "sliced"
        self._combine = combine_fn
        known = known_combine(combine_fn)
        assert known is not None
        self._shape = TupleShape((key, known.accumulators.shape))
        self._merging = Merging(known.accumulators)
        self._turns = cycle(columns)
        self._store = MemoryStore()
        self._watermark = -(10**15)
        self.taker = Taker(takes_columns=True)
        self.dropped: list[int] = []
        self.holds: list[int] = []

    def run(self, batches: list[tuple[list[Any], list[int], bool]], watermark: int) -> None:
        exchange = Exchange(self._windowing, self._key_coder, sliced=self._sliced)
        on = self.taker.takes_columns = next(self._turns)
        for pairs, times, columns in batches:
            exchange.write(pairs, self._shape, meta_of(self._fn, times), columns=columns and on)
        merge = self._combine.merge_accumulators
        copied = lambda found: [list(v) if isinstance(v, list) else v for v in found]  # noqa: E731
        grouper = make_stream_grouper(
            3, exchange.coder, self._windowing, 1 << 30, lambda found: [merge(found)],
            SLICES if self._sliced else None,
            Combination(merge, builtin_of(self._combine), copied),
            self._merging if on else None,
        )
        grouper.attach(self._store, self._watermark)
        for row in exchange.sent:
            grouper.add(row.kind, row.elements, row.payload)
        grouper.advance(watermark, 0, self.taker)
        self._watermark = max(watermark, self._watermark)
        self.holds.append(grouper.hold())
        grouper.flush()
        self.dropped.append(grouper.dropped)

    def answers(self) -> list[tuple[str, str, str]]:
        merge = self._combine.merge_accumulators
        found = self.taker.found
        return [(key, span, repr(merge(values))) for key, span, values in found]

    def state(self) -> list[tuple[bytes, bytes]]:
        return list(self._store.scan(b"", b"\xff" * 40))


@pytest.mark.parametrize("combine", ["sum", "max", "mean", "several"])
@pytest.mark.parametrize("windows", ["fixed", "sliding", "sliced"])
@settings(max_examples=20)
@given(data=st.data())
def test_a_stream_keeps_and_fires_what_objects_would(
    data: Any, windows: str, combine: str
) -> None:
    """Late accumulators among them: what is dropped, held and left in the store is the same."""
    combine_fn = COMBINES[combine]
    key, made, coder = data.draw(st.sampled_from(FEW_KEYS))
    by_objects, *others = [
        Epochs(windows, key, coder, combine_fn, *turns)
        for turns in ((False,), (True,), (True, False))
    ]
    numbers = data.draw(st.sampled_from([st.integers(-5, 5), LONG]))
    for _ in range(data.draw(st.integers(1, 4))):
        batches = []
        for size, columns in data.draw(BATCHES):
            keys = data.draw(st.lists(made, min_size=size, max_size=size))
            drawn = data.draw(st.lists(numbers, min_size=size, max_size=size))
            times = data.draw(st.lists(TIMES, min_size=size, max_size=size))
            pairs = list(zip(keys, accumulators(combine_fn, drawn), strict=True))
            batches.append((pairs, times, columns))
        watermark = data.draw(st.integers(-40, 130)) * SECOND
        for stream in (by_objects, *others):
            stream.run(batches, watermark)
            if windows != "sliced":  # a row of a slice has a name of its own each time
                assert stream.state() == by_objects.state()
    for stream in (by_objects, *others):
        stream.run([], 10**14)
        assert sorted(stream.answers()) == sorted(by_objects.answers())
        assert [w for _, w, _ in stream.answers()] == [w for _, w, _ in by_objects.answers()]
        assert stream.dropped == by_objects.dropped
        assert stream.holds == by_objects.holds


def test_what_is_no_payload_of_columns_is_refused() -> None:
    with pytest.raises(TransportError, match="keyed columns cannot be read"):
        read_keyed(b"\x00\x00\x00\x02ab")
    windowing = core.Windowing(window.Sessions(10))
    coder = WindowedValueCoder(TupleCoder([ANY, ANY]), IntervalWindowCoder())
    grouper = make_grouper(coder, windowing, grouping_of(windowing), 1 << 30)
    with pytest.raises(TransportError, match="has no table for them"):
        grouper.add(PayloadKind.KEYED_COLUMNS, 1, b"")


def test_few_pairs_travel_as_objects_do() -> None:
    exchange = Exchange(core.Windowing(window.GlobalWindows()), ANY, sliced=False)
    values = of_objects([(1, 2)], TupleShape((INT, INT)))
    assert values is not None
    exchange.writer.write_columns(values, meta_of(window.GlobalWindows(), [0]))
    exchange.writer.flush()
    assert [row.kind for row in exchange.sent] == [PayloadKind.GROUPED]
