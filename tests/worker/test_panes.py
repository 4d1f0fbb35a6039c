"""Groups of the default trigger over many epochs: the fast path against Beam's driver."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StateError, TransportError
from headrace.state.layout import Kind, kind_of
from headrace.worker.exchange.super_tuples import PayloadKind
from headrace.worker.grouping import panes
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.panes import WindowTables
from headrace.worker.grouping.sessions import SessionTables
from headrace.worker.grouping.triggers import TriggeredGroups
from tests.worker.stream_groups import (
    ANY,
    MAX,
    MIN,
    SECOND,
    STAGE,
    Naive,
    Stream,
    events,
    pane,
)

SMALL = settings(max_examples=60, deadline=None)
WINDOWINGS = [
    core.Windowing(window.FixedWindows(10)),
    core.Windowing(window.SlidingWindows(10, 4)),
    core.Windowing(window.SlidingWindows(4, 10)),
]
KEYS = st.sampled_from(["a", "b", 1, 1.0, True, None, ("t", 2), b"x", "long" * 40])
VALUES = st.integers(-5, 5) | st.sampled_from(["v", None, (1, "x"), [1, 2], [[3]], 2.5, {"d": 1}])
TIMES = st.integers(0, 60_000).map(lambda millis: millis * 1_000)
EPOCHS = st.lists(
    st.tuples(st.lists(st.tuples(KEYS, VALUES, TIMES), max_size=8), st.integers(0, 70)),
    max_size=6,
)


def taken(elements: list[Any]) -> int:
    """Count elements, once per window."""
    return sum(len(element.windows) for element in elements)


def handed_on(panes: list[Any]) -> int:
    """Count the elements in panes."""
    return sum(len(element.value[1]) for element in panes)


@SMALL
@given(st.sampled_from(WINDOWINGS), EPOCHS, st.sampled_from([1, 200, 1 << 30]))
def test_the_fast_path_gives_beams_panes_in_every_epoch(
    windowing: core.Windowing, epochs: list[Any], memory_bytes: int
) -> None:
    stream, naive = Stream(windowing, memory_bytes=memory_bytes), Naive(windowing)
    assert isinstance(stream.grouper, WindowTables)
    came = left = 0
    for data, seconds in [*epochs, ([], 1_000)]:
        found = events(windowing, data)
        came += taken(found)
        ours = stream.epoch(found, seconds * SECOND)
        left += handed_on(ours)
        assert Counter(map(pane, ours)) == Counter(map(pane, naive.epoch(found, seconds * SECOND)))
        ends = [element.windows[0].end for element in ours]
        assert ends == sorted(ends)
    assert came == left + stream.dropped  # each element in each of its windows, once
    assert {kind_of(row) for row in stream.store.rows} <= {Kind.META}


@SMALL
@given(st.sampled_from(WINDOWINGS), EPOCHS)
def test_the_fast_and_the_general_path_agree(windowing: core.Windowing, epochs: list[Any]) -> None:
    fast, general = Stream(windowing), Stream(windowing, general=True)
    assert isinstance(general.grouper, TriggeredGroups)
    for data, seconds in [*epochs, ([], 1_000)]:
        found = events(windowing, data)
        watermark = seconds * SECOND
        ours, theirs = fast.epoch(found, watermark), general.epoch(found, watermark)
        assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
        assert fast.hold == general.hold
        assert fast.dropped == general.dropped
    assert general.store.rows == {}


@SMALL
@given(EPOCHS)
def test_the_global_window_leaves_once_when_the_stream_ends(epochs: list[Any]) -> None:
    windowing = core.Windowing(window.GlobalWindows())
    stream = Stream(windowing)
    expected: dict[str, Any] = {}
    for data, seconds in epochs:
        assert stream.epoch(events(windowing, data), seconds * SECOND) == []
        for key, value, _ in data:
            expected.setdefault(repr(key), []).append(repr(value))
    only = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    end = window.GlobalWindow().max_timestamp().micros
    assert Counter(map(pane, stream.epoch([], MAX))) == Counter(
        (key, tuple(sorted(values)), "GlobalWindow", end, repr(only))
        for key, values in expected.items()
    )


def test_windows_leave_in_the_order_of_their_ends_whether_stored_or_new() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch(events(windowing, [("a", 1, 15 * SECOND), ("a", 2, 35 * SECOND)]), 5 * SECOND)
    found = [("a", 3, 5 * SECOND), ("b", 4, 15 * SECOND), ("a", 5, 25 * SECOND)]
    out = stream.epoch(events(windowing, found), 40 * SECOND)
    assert [(e.value, e.windows[0].end.micros // SECOND) for e in out] == [
        (("a", [3]), 10), (("a", [1]), 20), (("b", [4]), 20), (("a", [5]), 30), (("a", [2]), 40),
    ]  # fmt: skip


def test_a_window_fires_when_the_watermark_is_at_its_end_and_not_before() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    assert stream.epoch(events(windowing, [("k", 1, 0)]), 10 * SECOND - 1) == []
    (out,) = stream.epoch([], 10 * SECOND)
    assert out.value == ("k", [1])
    assert out.timestamp.micros == 10 * SECOND - 1
    assert out.pane_info == PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)


def test_an_element_of_a_window_that_has_passed_is_dropped_and_counted() -> None:
    windowing = core.Windowing(window.SlidingWindows(10, 5))
    stream = Stream(windowing)
    stream.epoch([], 10 * SECOND)
    out = stream.epoch(events(windowing, [("k", 1, 7 * SECOND)]), 15 * SECOND)
    assert [(e.value, e.windows[0].end.micros // SECOND) for e in out] == [(("k", [1]), 15)]
    assert stream.dropped == 1  # in [0, 10); [5, 15) still waited


def test_a_watermark_that_goes_back_is_taken_as_standing_still() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch([], 20 * SECOND)
    assert stream.epoch(events(windowing, [("k", 1, 15 * SECOND)]), 5 * SECOND) == []
    assert stream.dropped == 1


def test_the_hold_is_the_last_millisecond_of_the_first_window_that_waits() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch([], 0)
    assert stream.hold == MAX
    stream.epoch(events(windowing, [("k", 1, 25 * SECOND), ("k", 2, 15 * SECOND)]), 0)
    assert stream.hold == 20 * SECOND - 1_000
    stream.epoch(events(windowing, [("k", 1, 5 * SECOND)]), 0)
    assert stream.hold == 10 * SECOND - 1_000
    stream.epoch([], 20 * SECOND)
    assert stream.hold == 30 * SECOND - 1_000


def test_an_epoch_costs_what_it_touches_and_fires_not_what_waits() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch(events(windowing, [(i, i, (i % 50 + 10) * SECOND) for i in range(500)]), 0)
    stream.epoch([], 5 * SECOND)
    assert (stream.store.gets, stream.store.writes) == (0, 0)
    assert stream.store.scanned <= 1  # the first row, for the hold
    stream.epoch(events(windowing, [(0, "x", 10 * SECOND)]), 5 * SECOND)
    assert (stream.store.gets, stream.store.writes) == (1, 2)  # the counter; a row
    out = stream.epoch([], 20 * SECOND)
    assert len(out) == 100
    assert stream.store.writes == 101
    assert stream.store.scanned == 102


def test_an_epoch_that_failed_leaves_nothing_behind() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing, rebuild=False)
    (row,) = stream.tuples(events(windowing, [("k", "lost", 0)]))
    stream.grouper.attach(stream.store, MIN)
    stream.grouper.add(row.kind, row.elements, row.payload)
    stream.epoch(events(windowing, [("k", "kept", 0)]), 0)
    (out,) = stream.epoch([], 10 * SECOND)
    assert out.value == ("k", ["kept"])


def test_rows_of_a_shard_that_was_cut_anew_are_not_overwritten() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    for value in range(3):
        stream.epoch(events(windowing, [("k", value, 0)]), 0)
    (counter,) = [row for row in stream.store.rows if kind_of(row) is Kind.META]
    stream.store.delete(counter)
    stream.epoch(events(windowing, [("k", 3, 0)]), 0)
    (out,) = stream.epoch([], 10 * SECOND)
    assert out.value == ("k", [0, 1, 2, 3])


def test_compacted_groups_keep_one_row_per_key_and_window() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing, compact=lambda found: [sum(found)])
    for value in range(5):
        data = [("k", value, 0), ("k", value, 5 * SECOND), ("long" * 99, value, 0)]
        stream.epoch(events(windowing, data), 0)
        assert len(stream.store.rows) == 2
    out = stream.epoch(events(windowing, [("k", 100, 0)]), 10 * SECOND)
    assert {key: sum(found) for key, found in (e.value for e in out)} == {
        "k": 120, "long" * 99: 10,
    }  # fmt: skip
    assert stream.store.rows == {}


def test_values_that_are_not_plain_go_through_their_coder() -> None:
    windowing = core.Windowing(window.FixedWindows(10))
    coder = coders.IterableCoder(coders.VarIntCoder())
    stream = Stream(windowing, key_coder=coders.StrUtf8Coder(), value_coder=coder)
    stream.epoch(events(windowing, [("k", [1, 2], 0), ("k", [], 0)]), 0)
    (out,) = stream.epoch([], 10 * SECOND)
    assert out.value == ("k", [[1, 2], []])


def test_which_path_a_grouping_takes() -> None:
    def path(windowing: core.Windowing) -> type:
        coder = coders.WindowedValueCoder(
            coders.TupleCoder([ANY, ANY]), windowing.windowfn.get_window_coder()
        )
        return type(make_stream_grouper(STAGE, coder, windowing, 1 << 20))

    fixed = window.FixedWindows(10)
    assert path(core.Windowing(window.GlobalWindows())) is WindowTables
    assert path(core.Windowing(fixed)) is WindowTables
    assert path(core.Windowing(fixed, allowed_lateness=1)) is TriggeredGroups
    assert path(core.Windowing(window.Sessions(5))) is SessionTables
    assert path(core.Windowing(window.Sessions(5), allowed_lateness=1)) is SessionTables
    counted = core.Windowing(fixed, trigger.AfterCount(1), AccumulationMode.DISCARDING)
    assert path(counted) is TriggeredGroups


def test_a_payload_of_the_wrong_kind_is_refused() -> None:
    stream = Stream(core.Windowing(window.FixedWindows(10)))
    stream.grouper.attach(stream.store, MIN)
    with pytest.raises(TransportError):
        stream.grouper.add(PayloadKind.COLUMNS, 1, b"")


def test_a_group_that_is_too_large_for_the_memory_is_read_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hot key: its values stay in the store while user code reads them, as often as it likes."""
    monkeypatch.setattr(panes, "LAZY_BYTES", 400)
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    for number in range(20):
        data = [("hot", number * 10 + i, 0) for i in range(10)] + [("cold", number, 0)]
        stream.epoch(events(windowing, data), 0)
    seen: dict[str, list[Any]] = {}
    batches: list[int] = []

    def read(values: list[Any], meta: Any) -> None:
        batches.append(len(values))
        for key, group in values:
            seen[key] = [sorted(group), sorted(group), len(group), type(group) is list]

    stream.grouper = stream.build()
    stream.grouper.attach(stream.store, stream.watermark)
    for row in stream.tuples(events(windowing, [("hot", 200, 0), ("cold", 20, 0)])):
        stream.grouper.add(row.kind, row.elements, row.payload)
    gets = stream.store.gets
    stream.grouper.advance(10 * SECOND, 0, read)
    assert seen == {
        "hot": [list(range(201))] * 2 + [201, False], "cold": [list(range(21))] * 2 + [21, True]
    }
    assert stream.store.gets - gets == 3 * 20  # the rows of one key: to count, and read twice
    stream.grouper.flush()
    assert {kind_of(row) for row in stream.store.rows} <= {Kind.META}


def test_large_groups_are_handed_on_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes, "LAZY_BYTES", 3_000)
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch(events(windowing, [(key, "x" * 1_000, 0) for key in range(9)]), 0)
    sizes: list[int] = []
    stream.grouper = stream.build()
    stream.grouper.attach(stream.store, stream.watermark)
    stream.grouper.advance(10 * SECOND, 0, lambda values, _: sizes.append(len(values)))
    assert sizes == [3, 3, 3]


def test_values_of_a_pane_that_is_over_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(panes, "LAZY_BYTES", 5)
    windowing = core.Windowing(window.FixedWindows(10))
    stream = Stream(windowing)
    stream.epoch(events(windowing, [("k", "some text", 0)]), 0)
    (kept,) = stream.epoch([], 10 * SECOND)
    with pytest.raises(StateError, match="copy them to keep them"):
        list(kept.value[1])
