"""Sessions with the default trigger have a path of their own; Beam's driver says what is right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import IntervalWindow, Sessions, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.state.layout import Kind, kind_of
from headrace.worker.batched.batches import elements
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of
from headrace.worker.grouping.session_groups import Burst, SessionGrouper, Spans, bursts
from headrace.worker.grouping.session_rows import INLINE_BYTES, Session
from headrace.worker.grouping.sessions import SessionTables, placed
from headrace.worker.grouping.triggers import TriggeredGroups
from tests.worker.harness import collect, in_millis, in_order, on_beam, on_headrace
from tests.worker.stream_groups import ANY, MAX, MIN, SECOND, Naive, Stream, events, pane, windowed

DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING
VALUES = st.one_of(
    st.integers(0, 99), st.text("ab", max_size=2), st.tuples(st.integers(0, 9), st.text("a")),
    st.lists(st.integers(0, 9), max_size=2), st.sets(st.integers(0, 3), max_size=2),
)
DATA = st.lists(
    st.tuples(st.sampled_from(["a", 1, 1.0, ("b", 2), "long" * 40]), VALUES, st.integers(0, 60)),
    max_size=8,
)
#: Elements, the watermark, and whether the epoch is first tried and lost.
EPOCHS = st.lists(st.tuples(DATA, st.integers(0, 70), st.booleans()), max_size=8)


def strategy(gap: float, mode: Any = DISCARDING, lateness: int = 0) -> core.Windowing:
    return core.Windowing(Sessions(gap), None, mode, None, lateness)


def lost(stream: Stream, found: list[Any], watermark: int) -> None:
    """Run an epoch that does not come to count: the store is as it was."""
    rows, known = dict(stream.store.rows), (stream.watermark, stream.dropped)
    stream.epoch(found, watermark)
    stream.watermark, stream.dropped = known
    stream.store.rows.clear()
    for name in sorted(rows):
        stream.store.put(name, rows[name])


def check(windowing: core.Windowing, epochs: list[Any], *, older: int = 0, **how: Any) -> None:
    """Hold epochs against Beam's driver; the first of them may be run by an older version."""
    stream, naive = Stream(windowing, general=older > 0, **how), Naive(windowing)
    holding = Naive(windowing, holds_behind=False)
    promised = MIN  # the output's watermark: nothing that is not late may come before it
    for number, (data, seconds, crashes) in enumerate([*epochs, ([], MAX // SECOND, False)]):
        if number == older:
            stream.general = False
            stream.grouper = stream.build()
            assert isinstance(stream.grouper, SessionTables)
        watermark = MAX if seconds == MAX // SECOND else seconds * SECOND
        found = events(windowing, [(k, v, t * SECOND) for k, v, t in data])
        if crashes:
            lost(stream, found, watermark)
        ours, theirs = stream.epoch(found, watermark), naive.epoch(found, watermark)
        assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
        holding.epoch(found, watermark)
        # Beam's driver goes on to hold the ends of sessions that have become part of another.
        assert min(stream.hold, stream.watermark) >= min(holding.hold(), stream.watermark)
        for one in ours:
            # A last pane of late values is called on time if the session has grown since it fired.
            of_late = one.pane_info.is_last and getattr(windowing.triggerfn, "late", None)
            if one.pane_info.timing == PaneInfoTiming.ON_TIME and not of_late:
                assert one.timestamp.micros >= promised
        promised = max(promised, min(stream.hold, stream.watermark))
        assert stream.wakeup is None
    assert stream.store.rows == {}


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([0.5, 6, 15]), st.sampled_from([DISCARDING, ACCUMULATING]),
    st.sampled_from([0, 7, 100]), EPOCHS, st.booleans(),
)
def test_panes_and_holds_of_every_epoch_are_those_of_beams_driver(
    gap: float, mode: Any, lateness: int, epochs: list[Any], rebuild: bool
) -> None:
    check(strategy(gap, mode, lateness), epochs, rebuild=rebuild)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([DISCARDING, ACCUMULATING]),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 2, 50])), max_size=16),
)
def test_sessions_of_one_key_that_grow_and_meet_are_those_of_beams_driver(
    mode: Any, arrivals: list[tuple[int, int]]
) -> None:
    check(strategy(6, mode, 100), [([("k", i, t)], w, 0) for i, (t, w) in enumerate(arrivals)])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([6, 15]), st.sampled_from([DISCARDING, ACCUMULATING]),
    st.sampled_from([0, 7, 100]), EPOCHS, st.integers(1, 6),
)
def test_what_an_older_version_left_as_records_of_triggers_goes_on(
    gap: int, mode: Any, lateness: int, epochs: list[Any], older: int
) -> None:
    check(strategy(gap, mode, lateness), epochs, older=min(older, len(epochs)))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([DISCARDING, ACCUMULATING]), st.sampled_from([0, 7, 100]), EPOCHS,
    st.integers(0, 4),
)
def test_panes_of_accumulators_hold_the_elements_that_beams_driver_gives(
    mode: Any, lateness: int, epochs: list[Any], older: int
) -> None:
    """An accumulator is the list of what it was made from; merging changes it, and who gets it."""
    windowing = strategy(6, mode, lateness)

    def merge(accumulators: list[list[Any]]) -> list[list[Any]]:
        first, *others = accumulators or [[]]
        for other in others:
            first += other
        return [first]

    def taken(groups: list[Any]) -> list[Any]:
        copies = [(key, [v for values in found for v in values]) for key, found in groups]
        for _, found in groups:
            for values in found:
                values += ["spoilt"] * 3
        return copies

    stream = Stream(windowing, general=older > 0, compact=merge, on_push=taken)
    naive = Naive(windowing)
    for number, (data, seconds, _) in enumerate([*epochs, ([], MAX // SECOND, False)]):
        stream.general = number < older
        watermark = MAX if seconds == MAX // SECOND else seconds * SECOND
        moments = [(k, v, t * SECOND) for k, v, t in data]
        lists = events(windowing, [(k, [v], t) for k, v, t in moments])
        ours = stream.epoch(lists, watermark)
        theirs = naive.epoch(events(windowing, moments), watermark)
        assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
    assert stream.store.rows == {}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", 1.5]), VALUES, st.integers(-30_000, 30_000)),
        min_size=1, max_size=14,
    ),
    st.sampled_from([0.5, 4]), st.integers(0, 1),
)
def test_a_bounded_input_is_grouped_as_beams_runner_does(
    rows: list[Any], gap: float, twice: int
) -> None:
    """Grouped again, the windows are those of sessions that have merged already."""

    def build(p: beam.Pipeline) -> None:
        found = (
            p
            | beam.Create([0])
            | beam.FlatMap(
                lambda _: [TimestampedValue((k, v), t / 1_000) for k, v, t in rows]
            )
            | beam.WindowInto(Sessions(gap))
        )
        for i in range(twice + 1):
            found |= f"group {i}" >> beam.GroupByKey()
            found |= f"sort {i}" >> beam.MapTuple(
                lambda k, v: (repr(k)[:2], in_order([repr(one) for one in v]))
            )
        _ = found | collect(times=True)

    ours = in_order(in_millis(on_headrace(build)[0]["out"]))
    assert ours == in_order(in_millis(on_beam(build)[0]["out"]))


# -- by hand


def at(windowing: core.Windowing, *seconds: int, key: str = "k") -> list[Any]:
    return events(windowing, [(key, t, t * SECOND) for t in seconds])


def rows_of(stream: Stream, kind: Kind) -> int:
    return sum(kind_of(row) is kind for row in stream.store.rows)


def test_late_elements_fire_at_once_and_are_numbered_as_long_as_the_bounds_stay() -> None:
    windowing = strategy(10, ACCUMULATING, 20)
    stream = Stream(windowing)
    (first,) = stream.epoch(at(windowing, 0, 8), 18 * SECOND)
    assert first.pane_info == PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
    (again,) = stream.epoch(at(windowing, 3), 18 * SECOND)
    assert again.pane_info == PaneInfo(False, False, PaneInfoTiming.LATE, 1, 1)
    assert sorted(again.value[1]) == [0, 3, 8]
    assert stream.epoch(at(windowing, 17), 18 * SECOND) == []  # its end is 27: it waits again
    assert stream.hold == 27 * SECOND - 1_000
    (longer,) = stream.epoch([], 27 * SECOND)
    assert longer.pane_info == PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
    assert longer.windows == (IntervalWindow(0, 27),)
    assert sorted(longer.value[1]) == [0, 3, 8, 17]
    assert stream.epoch([], 47 * SECOND) == []
    assert stream.store.rows == {}


def test_an_element_whose_own_window_is_over_is_dropped_though_it_would_join_a_session() -> None:
    windowing = strategy(10)
    stream = Stream(windowing)
    stream.epoch(at(windowing, 9), 11 * SECOND)
    assert stream.epoch(at(windowing, 1, 0), 11 * SECOND) == []
    assert stream.dropped == 2
    (out,) = stream.epoch([], 19 * SECOND)
    assert out.value == ("k", [9])


def test_windows_of_the_wire_are_cut_to_milliseconds_in_bulk_as_in_rows() -> None:
    windowing = core.Windowing(Sessions(1))
    found = [windowed(windowing, key, 1, 1_500_700) for key in ("bulk", 2.5)]
    out = Stream(windowing).epoch(found, MAX)
    assert {repr(e.windows[0]) for e in out} == {"[1.5, 2.5)"}


def test_an_epoch_touches_the_keys_that_came_and_those_that_are_due() -> None:
    windowing = strategy(10)
    stream = Stream(windowing)
    stream.epoch([e for i in range(300) for e in at(windowing, 5, key=f"k{i}")], 0, batch=100)
    stream.epoch([], 4 * SECOND)
    assert (stream.store.gets, stream.store.writes) == (0, 0)
    stream.epoch(at(windowing, 7, key="k7"), 4 * SECOND)
    assert stream.store.gets == 1
    assert stream.store.writes == 1  # its row; the index row may be early
    assert len(stream.epoch([], 15 * SECOND)) == 299
    assert [e.value for e in stream.epoch([], 17 * SECOND)] == [("k7", [5, 7])]
    assert stream.store.rows == {}


def test_a_long_session_costs_what_an_epoch_brings() -> None:
    windowing = strategy(10)
    stream = Stream(windowing)
    text = "x" * 200
    for i in range(200):
        stream.epoch(events(windowing, [("k", f"{i}{text}", i * SECOND)]), 0)
        assert stream.store.writes <= 3
    row = [data for name, data in stream.store.rows.items() if kind_of(name) is Kind.SESSION]
    assert len(row[0]) < INLINE_BYTES + 1_000
    assert 20 < rows_of(stream, Kind.SESSION_VALUES) < 60
    (out,) = stream.epoch([], MAX)
    assert out.value[1] == [f"{i}{text}" for i in range(200)]
    assert stream.store.rows == {}


def test_a_combine_keeps_one_accumulator_and_no_elements() -> None:
    windowing = strategy(10)
    stream = Stream(windowing, compact=lambda found: [sum(found)])
    for i in range(100):
        stream.epoch(events(windowing, [("k", i, i * SECOND)] * 10), 0, batch=10)
    assert sum(len(name) + len(row) for name, row in stream.store.rows.items()) < 200
    (out,) = stream.epoch([], MAX)
    assert out.value == ("k", [10 * sum(range(100))])


@pytest.mark.parametrize(
    ("windowing", "path"),
    [
        (core.Windowing(Sessions(5)), Grouping.SESSIONS),
        (core.Windowing(Sessions(5), allowed_lateness=9), Grouping.SESSIONS),
        (
            core.Windowing(Sessions(5), trigger.Repeatedly(trigger.AfterCount(2)), DISCARDING),
            Grouping.GENERAL,
        ),
        (
            core.Windowing(
                Sessions(5), timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_EARLIEST
            ),
            Grouping.GENERAL,
        ),
        (core.Windowing(type("Mine", (Sessions,), {})(5)), Grouping.GENERAL),
    ],
    ids=["sessions", "late", "another trigger", "another time", "another function"],
)
def test_only_beams_own_sessions_with_the_default_trigger_take_this_path(
    windowing: Any, path: Grouping
) -> None:
    assert grouping_of(windowing) is path
    kind = SessionTables if path is Grouping.SESSIONS else TriggeredGroups
    assert type(Stream(windowing).grouper) is kind


def test_bursts_are_merged_where_one_begins_before_the_other_ends() -> None:
    assert bursts(Spans([5, 0, 10, 3], [10, 3, 12, 6], ["b", "a", "c", "d"])) == [
        Burst(0, 3, ["a"]), Burst(3, 10, ["d", "b"]), Burst(10, 12, ["c"]),
    ]


def test_a_burst_is_placed_among_the_sessions_that_it_touches() -> None:
    def made(*spans: tuple[int, int]) -> list[Session]:
        return [Session(start, end, True, 2, [], []) for start, end in spans]

    def told(sessions: list[Session]) -> list[tuple[int, int, int]]:
        return [(s.start, s.end, s.panes) for s in sessions]

    known = made((0, 5), (10, 15), (20, 25))
    placed(known, Burst(5, 10, ["x"]))  # touches both neighbours at a point: joins none
    assert told(known) == [(0, 5, 2), (5, 10, 0), (10, 15, 2), (20, 25, 2)]
    placed(known, Burst(11, 14, ["y"]))  # inside: the bounds stay
    assert told(known) == [(0, 5, 2), (5, 10, 0), (10, 15, 2), (20, 25, 2)]
    placed(known, Burst(4, 21, ["z"]))
    assert told(known) == [(0, 25, 0)]


@settings(max_examples=60, deadline=None)
@given(DATA, st.sampled_from([1, 300, 1 << 30]))
def test_what_outgrows_the_memory_goes_to_disk_and_gives_the_same_sessions(
    data: list[Any], memory: int
) -> None:
    windowing = core.Windowing(Sessions(5))
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([ANY, ANY]), windowing.windowfn.get_window_coder()
    )
    found = events(windowing, [(k, v, t * SECOND) for k, v, t in data])
    grouper = SessionGrouper(coder, windowing, memory)
    for row in Stream(windowing).tuples(found):
        grouper.add(row.kind, row.elements, row.payload)
    pushed: list[Any] = []
    grouper.emit(lambda values, meta: pushed.extend(elements(values, meta)))
    assert Counter(map(pane, pushed)) == Counter(map(pane, Naive(windowing).epoch(found, MAX)))
