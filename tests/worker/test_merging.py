"""Accumulators that are merged before they travel: the panes are those of single elements."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.worker.batched.batches import batch_of
from headrace.worker.exchange import merging
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.exchange.heavy_keys import HeavyKeys
from headrace.worker.exchange.merged_rows import read_merged, write_merged
from headrace.worker.exchange.merging import Combining, Merging
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple
from headrace.worker.grouping.tables import GlobalGrouper
from tests.worker.stream_groups import ANY, MAX, SECOND, Naive, Stream, events, pane
from tests.worker.test_triggers import COMBINERS, DATA, MODES, TRIGGERS

FNS = [window.FixedWindows(10), window.SlidingWindows(10, 4), GlobalWindows()]
INT = coders.VarIntCoder()
GLOBALLY = coders.WindowedValueCoder(ANY, GlobalWindows().get_window_coder()).get_impl()


def joined(found: list[Any]) -> list[Any]:
    """Merge lists into the first of them, as a combiner may."""
    first: list[Any] = found[0]
    for other in found[1:]:
        first += other
    return first


def compact(found: list[Any]) -> list[Any]:
    return [joined(found) if found else []]


# -- answers


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(FNS), st.sampled_from(TRIGGERS), st.sampled_from(MODES),
    st.sampled_from(COMBINERS), st.sampled_from([0, 7]), st.integers(1, 9),
    st.lists(st.tuples(DATA, st.integers(0, 70), st.integers(0, 6)), max_size=7),
)  # fmt: skip
def test_panes_of_merged_accumulators_are_those_of_beams_driver(
    fn: Any, when: Any, mode: Any, combiner: Any, lateness: int, held: int, epochs: list[Any]
) -> None:
    """Lists stand for accumulators: a value that is lost, doubled or shared shows."""
    windowing = core.Windowing(fn, when, mode, combiner, lateness)

    def taken(groups: list[Any]) -> list[Any]:
        """Take the values as they are now, then change them, as a combiner may."""
        copies = [(key, [value for values in found for value in values]) for key, found in groups]
        for _, found in groups:
            for values in found:
                values += ["spoilt"] * 3
        return copies

    combining = Combining(joined, "step", combiner != window.TimestampCombiner.OUTPUT_AT_EOW)
    stream = Stream(windowing, general=True, compact=compact, combining=combining, on_push=taken)
    naive = Naive(windowing)
    now = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "HELD_ELEMENTS", held)
        patch.setattr(merging, "LEAST_GAIN", 0.0)
        for data, seconds, later in [*epochs, ([], MAX // SECOND, 0)]:
            now += later * SECOND
            moments = [(k, v, t * SECOND) for k, v, t in data]
            lists = events(windowing, [(k, [v], t) for k, v, t in moments])
            watermark = MAX if seconds == MAX // SECOND else seconds * SECOND
            ours = stream.epoch(lists, watermark, now, batch=3)
            theirs = naive.epoch(events(windowing, moments), watermark, now)
            assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
    assert stream.store.rows == {}


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(FNS), st.sampled_from(TRIGGERS), st.sampled_from(COMBINERS),
    st.lists(st.tuples(DATA, st.integers(0, 70), st.integers(0, 6)), max_size=6),
)
def test_as_many_elements_are_late_as_without_merging(
    fn: Any, when: Any, combiner: Any, epochs: list[Any]
) -> None:
    mode = trigger.AccumulationMode.DISCARDING
    windowing = core.Windowing(fn, when, mode, combiner, 3)
    combining = Combining(joined, "step", combiner != window.TimestampCombiner.OUTPUT_AT_EOW)
    merged = Stream(windowing, general=True, compact=compact, combining=combining)
    single = Stream(windowing, general=True, compact=compact)
    now = 0
    for data, seconds, later in epochs:
        now += later * SECOND
        for stream in (merged, single):
            found = events(windowing, [(k, [v], t * SECOND) for k, v, t in data])
            stream.epoch(found, seconds * SECOND, now, batch=4)
        assert (merged.dropped, merged.hold, merged.wakeup) == (
            single.dropped, single.hold, single.wakeup
        )  # fmt: skip


def test_a_trigger_that_counts_sees_every_element_of_a_hot_key() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), trigger.AfterWatermark(early=trigger.AfterCount(1_000)),
        trigger.AccumulationMode.ACCUMULATING,
    )  # fmt: skip
    stream = Stream(
        windowing, general=True, compact=lambda found: [sum(found)],
        combining=Combining(sum, "step", timed=False),
    )  # fmt: skip

    def epoch(elements: int) -> list[int]:
        found = events(windowing, [("hot", 1, SECOND)] * elements)
        return [sum(p.value[1]) for p in stream.epoch(found, 0, batch=100)]

    assert epoch(999) == []
    assert epoch(1) == [1_000]
    assert [sum(p.value[1]) for p in stream.epoch([], MAX)] == [1_000]


# -- what travels


def writer(rows: list[SuperTuple], key_coder: Any = ANY, **more: Any) -> GroupWriter:
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([key_coder, ANY]), GlobalWindows().get_window_coder()
    )
    chosen = {"shards": 4, "super_tuple_bytes": 1 << 16, "combining": SUM, **more}
    return GroupWriter(3, coder, Grouping.GENERAL, rows.append, **chosen)


SUM = Combining(sum, "Sum it up", timed=False)


def wrote(pairs: list[Any], rows: list[SuperTuple], **more: Any) -> GroupWriter:
    made = writer(rows, **more)
    for start in range(0, len(pairs), 500):
        part = [GlobalWindows.windowed_value(pair) for pair in pairs[start : start + 500]]
        made.write(*batch_of(part))
    made.flush()
    return made


def test_half_of_all_elements_on_one_shard_become_a_few_accumulators() -> None:
    pairs = [(0 if n % 2 else n % 1_000, 1) for n in range(20_000)]
    without: list[SuperTuple] = []
    wrote(pairs, without, combining=None)
    merged: list[SuperTuple] = []
    made = wrote(pairs, merged)
    assert slowest(without) > 0.5
    assert slowest(merged) < 0.3
    assert {row.kind for row in merged} == {PayloadKind.MERGED_ROWS}
    found = [
        (ANY.decode(name), one.value, one.elements)
        for row in merged
        for name, one in read_merged(row.payload, GLOBALLY.decode_from_stream)
    ]
    assert {key: value for key, value, _ in found} == dict(Counter(k for k, _ in pairs))
    assert all(value == count for _, value, count in found)
    assert made.merging is not None
    shares = made.merging.shares()
    assert shares.elements == 20_000
    (hot,) = shares.hot.items()
    assert hot[0] == "0"
    assert 9_900 <= hot[1] <= 10_020  # a lower bound


def slowest(rows: list[SuperTuple]) -> float:
    by_shard: Counter[int] = Counter()
    for row in rows:
        by_shard[row.shard] += row.elements
    return max(by_shard.values()) / by_shard.total()


def test_keys_that_python_holds_equal_stay_apart() -> None:
    rows: list[SuperTuple] = []
    wrote([(key, 1) for key in (1, 1.0, True, "1", b"1", (1,), [1])] * 100, rows)
    names = Counter(
        (name, one.elements)
        for row in rows
        for name, one in read_merged(row.payload, GLOBALLY.decode_from_stream)
    )
    assert len(names) == 7
    assert {count for _, count in names} == {100}


def test_elements_are_let_through_as_they_are_while_keys_do_not_repeat() -> None:
    rows: list[SuperTuple] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "HELD_ELEMENTS", 1_000)
        wrote([(n, 1) for n in range(20_000)], rows)
    kinds: Counter[int] = Counter()
    for row in rows:
        kinds[row.kind] += row.elements
    assert kinds.total() == 20_000
    assert kinds[PayloadKind.KEYED_ROWS] >= 16_000


def test_large_accumulators_travel_before_they_fill_the_memory() -> None:
    rows: list[SuperTuple] = []
    made = writer(rows, combining=Combining(lambda found: max(found), "step", timed=False))
    for n in range(40):
        made.write([(0, bytes([n]) * (1 << 20))], GlobalWindows.windowed_value(None))
    assert len(rows) >= 2


def test_a_combiner_that_fails_is_blamed_by_its_name() -> None:
    def merge(found: list[Any]) -> Any:
        raise ValueError("no")  # noqa: EM101 (as user code does)

    made = writer([], combining=Combining(merge, "Sum it up", timed=False))
    made.write([(0, 1), (0, 2)], GlobalWindows.windowed_value(None))
    with pytest.raises(ValueError, match=r"no \[while running 'Sum it up'\]"):
        made.flush()


def test_a_grouping_of_elements_refuses_merged_accumulators() -> None:
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([INT, INT]), GlobalWindows().get_window_coder()
    )
    grouper = GlobalGrouper(coder, core.Windowing(GlobalWindows()), 1 << 20)
    with pytest.raises(TransportError, match="merged accumulators"):
        grouper.add(PayloadKind.MERGED_ROWS, 1, b"")


TIMES = st.one_of(
    st.integers(MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros),
    st.sampled_from([MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, -1, 0, 1, 999, -999, -1_001]),
)


@given(st.lists(TIMES, min_size=1, max_size=20))
@example([MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, -1_500, 1_500])
def test_times_arrive_as_those_of_single_elements_do(times: list[int]) -> None:
    made = Merging(Combining(sum, "step", timed=True), ANY, GLOBALLY, 4)
    found = [WindowedValue(("k", 1), Timestamp(micros=t), (GlobalWindow(),)) for t in times]
    assert made.takes(*batch_of(found))
    ((_, count, payload),) = made.parcels(lambda _: 0)
    ((name, merged),) = read_merged(payload, GLOBALLY.decode_from_stream)
    assert (ANY.decode(name), count) == ("k", 1)
    assert merged.value == merged.elements == len(times)
    arrived = [GLOBALLY.decode(GLOBALLY.encode(e.with_value(1))).timestamp_micros for e in found]
    assert merged.times == sorted(set(arrived))


def test_a_merged_row_says_what_it_stands_for() -> None:
    stream = create_OutputStream()
    element = GlobalWindows.windowed_value("sum")
    write_merged(stream, GLOBALLY.encode_to_stream, b"key", element, 7, [3, 9])
    ((name, merged),) = read_merged(stream.get(), GLOBALLY.decode_from_stream)
    assert (name, merged.value, merged.elements, merged.times) == (b"key", "sum", 7, [3_000, 9_000])
    assert list(merged.windows) == [GlobalWindow()]


# -- the summary


@given(
    st.lists(st.dictionaries(st.integers(0, 40), st.integers(1, 60), max_size=30), max_size=20),
    st.integers(1, 30),
)
def test_counts_of_the_summary_are_never_too_high_and_little_too_low(
    parts: list[dict[int, int]], counters: int
) -> None:
    heavy = HeavyKeys(0.1, counters)
    truth: Counter[int] = Counter()
    for part in parts:
        heavy.see(part)
        truth.update(part)
    assert heavy.total == truth.total()
    assert len(heavy.counts) <= counters
    for key, count in truth.items():
        assert count - truth.total() / (counters + 1) <= heavy.counts.get(key, 0) <= count


def test_a_key_below_the_share_is_not_heavy() -> None:
    heavy = HeavyKeys(0.25)
    for _ in range(10):
        heavy.see({"hot": 500, "warm": 200, **{n: 1 for n in range(300)}})
    assert list(heavy.found) == ["hot"]
