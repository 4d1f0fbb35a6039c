"""Sessions that fire at their end and after so many elements; Beam's driver says what is right."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import Sessions
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.layout import Kind, kind_of
from headrace.worker.batched.batches import elements
from headrace.worker.exchange.grouping_kind import Counts, Grouping, counts_of, grouping_of
from headrace.worker.grouping.counted_sessions import CountedSessions
from headrace.worker.grouping.general import GeneralGrouper
from headrace.worker.grouping.session_groups import SessionGrouper
from headrace.worker.grouping.triggers import TriggeredGroups
from tests.worker.stream_groups import ANY, MAX, SECOND, Naive, Stream, events, pane
from tests.worker.test_sessions import EPOCHS, VALUES, check

DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING
MODES = st.sampled_from([DISCARDING, ACCUMULATING])
COUNTS = st.one_of(st.none(), st.integers(1, 4))
LATENESS = st.sampled_from([0, 7, 100])
#: When an element of one key comes, and the watermark then: sessions that grow and meet.
MEETING = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 2, 12, 25, 50])), max_size=16
)


def strategy(
    gap: float, early: int | None, late: int | None, mode: Any = DISCARDING, lateness: int = 0
) -> core.Windowing:
    when = AfterWatermark(
        early=None if early is None else AfterCount(early),
        late=None if late is None else AfterCount(late),
    )
    return core.Windowing(Sessions(gap), when, mode, None, lateness)


def one_by_one(arrivals: list[tuple[int, int]]) -> list[Any]:
    """Give an epoch for each element of a key."""
    return [([("k", i, t)], mark, False) for i, (t, mark) in enumerate(arrivals)]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([0.5, 6, 15]), COUNTS, COUNTS, MODES, LATENESS, EPOCHS, st.booleans())
def test_panes_and_holds_of_every_epoch_are_those_of_beams_driver(
    gap: float, early: Any, late: Any, mode: Any, lateness: int, epochs: list[Any], rebuild: bool
) -> None:
    check(strategy(gap, early, late, mode, lateness), epochs, rebuild=rebuild)


@settings(max_examples=500, deadline=None)
@given(COUNTS, COUNTS, MODES, LATENESS, MEETING)
def test_sessions_of_one_key_that_grow_and_meet_are_those_of_beams_driver(
    early: Any, late: Any, mode: Any, lateness: int, arrivals: list[tuple[int, int]]
) -> None:
    windowing = strategy(6, early, late, mode, lateness)
    check(windowing, one_by_one(arrivals))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([6, 15]), COUNTS, COUNTS, MODES, LATENESS, EPOCHS, st.integers(1, 6))
def test_what_an_older_version_left_as_records_of_triggers_goes_on(
    gap: int, early: Any, late: Any, mode: Any, lateness: int, epochs: list[Any], older: int
) -> None:
    windowing = strategy(gap, early, late, mode, lateness)
    check(windowing, epochs, older=min(older, len(epochs)))


@settings(max_examples=300, deadline=None)
@given(COUNTS, COUNTS, MODES, LATENESS, MEETING, st.integers(1, 12))
def test_one_key_that_an_older_version_left_goes_on(
    early: Any, late: Any, mode: Any, lateness: int, arrivals: list[tuple[int, int]], older: int
) -> None:
    windowing = strategy(6, early, late, mode, lateness)
    check(windowing, one_by_one(arrivals), older=min(older, len(arrivals)))


@settings(max_examples=400, deadline=None)
@given(
    COUNTS, COUNTS, MODES, LATENESS, st.one_of(EPOCHS, MEETING.map(one_by_one))
)
def test_panes_of_a_key_leave_in_the_drivers_order_and_as_many_elements_are_dropped(
    early: Any, late: Any, mode: Any, lateness: int, epochs: list[Any]
) -> None:
    windowing = strategy(6, early, late, mode, lateness)
    ours, driver = Stream(windowing), Stream(windowing, general=True)
    assert isinstance(ours.grouper, CountedSessions)
    assert isinstance(driver.grouper, TriggeredGroups)
    for data, seconds, _ in [*epochs, ([], MAX // SECOND, False)]:
        watermark = MAX if seconds == MAX // SECOND else seconds * SECOND
        found = events(windowing, [(k, v, t * SECOND) for k, v, t in data])
        assert by_key(ours.epoch(found, watermark)) == by_key(driver.epoch(found, watermark))
        assert ours.dropped == driver.dropped


def by_key(panes: list[Any]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for one in map(pane, panes):
        found[one[0]].append(one)
    return found


@settings(max_examples=300, deadline=None)
@given(COUNTS, COUNTS, MODES, LATENESS, EPOCHS, st.integers(0, 4))
def test_panes_of_accumulators_hold_the_elements_that_beams_driver_gives(
    early: Any, late: Any, mode: Any, lateness: int, epochs: list[Any], older: int
) -> None:
    """An accumulator is the list of what it was made from; merging changes it, and who gets it."""
    windowing = strategy(6, early, late, mode, lateness)

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


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", 1, 1.0]), VALUES, st.integers(0, 60)), max_size=14
    ),
    COUNTS, COUNTS, MODES, st.sampled_from([1, 300, 1 << 30]),
)
def test_a_bounded_input_gives_the_panes_of_beams_driver(
    data: list[Any], early: Any, late: Any, mode: Any, memory: int
) -> None:
    windowing = strategy(6, early, late, mode)
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([ANY, ANY]), windowing.windowfn.get_window_coder()
    )
    found = events(windowing, [(k, v, t * SECOND) for k, v, t in data])
    told = []
    for grouper in (
        SessionGrouper(coder, windowing, memory), GeneralGrouper(coder, windowing, memory),
    ):  # fmt: skip
        for row in Stream(windowing).tuples(found):
            grouper.add(row.kind, row.elements, row.payload)
        pushed: list[Any] = []
        grouper.emit(lambda values, meta, into=pushed: into.extend(elements(values, meta)))  # type: ignore[misc]
        panes = [pane(e.with_value((e.value[0], list(e.value[1])))) for e in pushed]
        told.append(sorted(panes, key=lambda one: (one[0], one[2])))  # in order for each session
    assert told[0] == told[1]


# -- by hand


def at(windowing: core.Windowing, *seconds: int, key: str = "k") -> list[Any]:
    return events(windowing, [(key, t, t * SECOND) for t in seconds])


def rows_of(stream: Stream, kind: Kind) -> int:
    return sum(kind_of(row) is kind for row in stream.store.rows)


def test_panes_leave_after_so_many_elements_at_the_end_and_for_what_is_late() -> None:
    windowing = strategy(10, 2, 1, DISCARDING, 20)
    stream = Stream(windowing)
    assert stream.epoch(at(windowing, 0), 0) == []
    (early,) = stream.epoch(at(windowing, 3), 0)
    assert early.pane_info == PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)
    assert sorted(early.value[1]) == [0, 3]
    (end,) = stream.epoch([], 13 * SECOND)  # nothing came since: the pane at the end is empty
    assert end.pane_info == PaneInfo(False, False, PaneInfoTiming.ON_TIME, 1, 0)
    assert end.value == ("k", [])
    (late,) = stream.epoch(at(windowing, 1), 13 * SECOND)
    assert late.pane_info == PaneInfo(False, False, PaneInfoTiming.LATE, 2, 1)
    assert stream.epoch([], 33 * SECOND) == []
    assert stream.store.rows == {}


def test_a_session_that_has_fired_and_grows_counts_on_and_holds_until_it_is_forgotten() -> None:
    windowing = strategy(10, None, 3, DISCARDING, 20)
    stream = Stream(windowing)
    (first,) = stream.epoch(at(windowing, 0), 10 * SECOND)
    assert first.pane_info == PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
    assert stream.epoch(at(windowing, 8), 10 * SECOND) == []  # its end is 18 now, one of three
    assert stream.hold == 18 * SECOND - 1_000
    assert rows_of(stream, Kind.SESSION_HOLD) == 1
    assert stream.epoch([], 30 * SECOND) == []
    assert stream.hold == 18 * SECOND - 1_000
    (last,) = stream.epoch([], 38 * SECOND)
    assert last.pane_info == PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    assert last.value == ("k", [8])
    assert stream.store.rows == {}


def test_without_late_panes_a_session_that_has_fired_takes_nothing_more() -> None:
    windowing = strategy(10, 5, None, DISCARDING, 20)
    stream = Stream(windowing)
    (end,) = stream.epoch(at(windowing, 0, 2), 12 * SECOND)
    assert end.pane_info == PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    assert stream.epoch(at(windowing, 5, 6), 12 * SECOND) == []
    assert stream.dropped == 2
    assert stream.epoch([], MAX) == []
    assert stream.store.rows == {}


def test_an_epoch_reads_and_writes_a_key_once_however_many_elements_it_brings() -> None:
    windowing = strategy(10, 1_000, 1, DISCARDING, 20)
    stream = Stream(windowing, compact=lambda found: [sum(found)])
    stream.epoch(at(windowing, *[5] * 300), 0, batch=100)
    stream.epoch(at(windowing, *[7] * 300), 0, batch=100)
    assert (stream.store.gets, stream.store.writes) == (1, 1)
    (end,) = stream.epoch([], 17 * SECOND)
    assert end.value == ("k", [300 * 12])


@pytest.mark.parametrize(
    ("when", "counts"),
    [
        (AfterWatermark(), Counts(None, None)),
        (AfterWatermark(early=AfterCount(3)), Counts(3, None)),
        (AfterWatermark(trigger.Repeatedly(AfterCount(3)), AfterCount(1)), Counts(3, 1)),
        (AfterWatermark(late=trigger.AfterProcessingTime(3)), None),
        (AfterWatermark(trigger.AfterAny(AfterCount(3), AfterCount(1))), None),
        (AfterWatermark(trigger.Repeatedly(trigger.Repeatedly(AfterCount(3)))), None),
        (trigger.Repeatedly(AfterCount(3)), None),
        (trigger.DefaultTrigger(), None),
    ],
    ids=repr,
)
def test_only_counts_around_the_end_of_the_window_take_this_path(
    when: Any, counts: Counts | None
) -> None:
    windowing = core.Windowing(Sessions(5), when, DISCARDING)
    assert counts_of(windowing) == counts
    is_default = isinstance(when, trigger.DefaultTrigger)
    fast = counts is not None or is_default
    assert (grouping_of(windowing) is Grouping.SESSIONS) is fast
    assert (type(Stream(windowing).grouper) is CountedSessions) is (counts is not None)
    earliest = core.Windowing(
        Sessions(5), when, DISCARDING, window.TimestampCombiner.OUTPUT_AT_EARLIEST
    )
    assert grouping_of(earliest) is Grouping.GENERAL
