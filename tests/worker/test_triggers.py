"""Any trigger over a store: Beam's transcripts, Beam's driver, and what Beam leaves open."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from apache_beam.transforms import core, trigger, trigger_test, window
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import WindowFn
from apache_beam.utils.windowed_value import PaneInfoTiming
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StateError
from headrace.state.layout import Kind, kind_of
from headrace.state.store import MemoryStore
from tests.worker.stream_groups import MAX, MIN, SECOND, Naive, Stream, events, pane, windowed


class TestTranscripts(trigger_test.TranscriptTest):  # type: ignore[misc]
    """Beam's transcripts; the grouper is built anew before each line."""

    def _execute(
        self,
        window_fn: WindowFn,
        trigger_fn: Any,
        accumulation_mode: Any,
        timestamp_combiner: Any,
        allowed_lateness: Any,
        transcript: list[tuple[str, Any]],
        spec: Any,
    ) -> None:
        windowing = core.Windowing(
            window_fn, trigger_fn, accumulation_mode, timestamp_combiner, allowed_lateness
        )
        stream = Stream(windowing, general=True)
        watermark = MIN
        output: list[Any] = []
        for action, params in transcript:
            if action == "expect":
                for expected in params:
                    match = [
                        found
                        for found in output
                        if all(found[k] == v for k, v in expected.items() if k in found)
                    ]
                    assert match, f"Unmatched output {expected} in {output}"
                    output.remove(match[0])
                continue
            assert output == [], f"Unexpected output {output} before {action} {params}"
            if action == "state":
                continue
            found = []
            if action == "input":
                found = [windowed(windowing, "key", t, t * SECOND) for t in params]
            else:
                watermark = params * SECOND
            output = [
                trigger_test._windowed_value_info(element.with_value(element.value[1]))
                for element in stream.epoch(found, watermark)
            ]
        assert output == [], f"Unexpected output {output}"


TestTranscripts._create_tests(trigger_test.TRANSCRIPT_TEST_FILE)


DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING
EARLIEST, LATEST = (
    window.TimestampCombiner.OUTPUT_AT_EARLIEST,
    window.TimestampCombiner.OUTPUT_AT_LATEST,
)


class Bursts(window.Sessions):  # type: ignore[misc]
    """Sessions by another name: windows that merge, but not of a known function."""


FNS = [
    window.FixedWindows(10), window.SlidingWindows(10, 4), window.Sessions(6), Bursts(6),
    window.GlobalWindows(),
]  # fmt: skip
TRIGGERS = [
    trigger.DefaultTrigger(),
    trigger.AfterWatermark(early=trigger.AfterCount(2)),
    trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1)),
    trigger.AfterWatermark(early=trigger.AfterProcessingTime(3), late=trigger.AfterCount(1)),
    trigger.AfterWatermark(late=trigger.AfterCount(1)),
    trigger.Repeatedly(trigger.AfterCount(1)),
    trigger.Repeatedly(trigger.AfterProcessingTime(5)),
    trigger.Repeatedly(trigger.AfterAny(trigger.AfterCount(3), trigger.AfterWatermark())),
    trigger.AfterEach(trigger.AfterCount(2), trigger.AfterWatermark(late=trigger.AfterCount(1))),
    trigger.OrFinally(trigger.Repeatedly(trigger.AfterCount(1)), trigger.AfterCount(4)),
    trigger.AfterAll(trigger.AfterCount(2), trigger.AfterWatermark()),
]
MODES = [DISCARDING, ACCUMULATING]
COMBINERS = [window.TimestampCombiner.OUTPUT_AT_EOW, EARLIEST, LATEST]
DATA = st.lists(
    st.tuples(st.sampled_from(["a", 1, 1.0, "long" * 40]), st.integers(0, 99), st.integers(0, 60)),
    max_size=7,
)
EPOCHS = st.lists(st.tuples(DATA, st.integers(0, 70), st.integers(0, 6)), max_size=7)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(FNS), st.sampled_from(TRIGGERS), st.sampled_from(MODES),
    st.sampled_from(COMBINERS), st.sampled_from([0, 7]), EPOCHS,
)  # fmt: skip
def test_panes_of_every_epoch_are_those_of_beams_driver(
    fn: Any, when: Any, mode: Any, combiner: Any, lateness: int, epochs: list[Any]
) -> None:
    windowing = core.Windowing(fn, when, mode, combiner, lateness)
    check_against_beam(windowing, epochs)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FNS[2:4]), st.sampled_from(TRIGGERS), st.sampled_from(MODES),
    st.sampled_from(COMBINERS),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 2, 50])), max_size=16),
)  # fmt: skip
def test_sessions_of_one_key_that_grow_and_meet_are_those_of_beams_driver(
    fn: Any, when: Any, mode: Any, combiner: Any, arrivals: list[tuple[int, int]]
) -> None:
    windowing = core.Windowing(fn, when, mode, combiner, 100)
    check_against_beam(windowing, [([("k", i, t)], w, 1) for i, (t, w) in enumerate(arrivals)])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(FNS), st.sampled_from(TRIGGERS), st.sampled_from(MODES),
    st.sampled_from(COMBINERS), st.sampled_from([0, 7]), EPOCHS,
)  # fmt: skip
def test_panes_of_accumulators_hold_the_elements_that_beams_driver_gives(
    fn: Any, when: Any, mode: Any, combiner: Any, lateness: int, epochs: list[Any]
) -> None:
    """An accumulator is the list of what it was made from, and merging changes the first one.

    So does who gets a pane, as a CombineFn may: what is kept must be none of what is given.
    """
    windowing = core.Windowing(fn, when, mode, combiner, lateness)

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

    stream = Stream(windowing, general=True, compact=merge, on_push=taken)
    naive = Naive(windowing)
    now = 0
    for data, seconds, later in [*epochs, ([], MAX // SECOND, 0)]:
        now += later * SECOND
        moments = [(k, v, t * SECOND) for k, v, t in data]
        lists = events(windowing, [(k, [v], t) for k, v, t in moments])
        watermark = MAX if seconds == MAX // SECOND else seconds * SECOND
        ours = stream.epoch(lists, watermark, now)
        theirs = naive.epoch(events(windowing, moments), watermark, now)
        assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
    assert stream.store.rows == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "early", [trigger.AfterCount(70), trigger.AfterProcessingTime(1)], ids=["count", "clock"]
)
def test_a_combine_with_early_firings_keeps_one_accumulator_and_no_elements(
    mode: Any, early: Any
) -> None:
    """10,000 elements of one key in 100 epochs: all of them were kept, some 60 KB."""
    when = trigger.AfterWatermark(early=trigger.Repeatedly(early))
    windowing = core.Windowing(window.FixedWindows(1_000), when, mode, None, 60)
    stream = Stream(windowing, general=True, compact=lambda found: [sum(found)])
    most, sums = 0, []
    for epoch in range(100):
        found = events(windowing, [("k", n, 5 * SECOND) for n in range(100)])
        panes = stream.epoch(found, SECOND, now=2 * epoch * SECOND, batch=100)
        sums += [sum(element.value[1]) for element in panes]
        most = max(most, sum(len(name) + len(row) for name, row in stream.store.rows.items()))
    sums += [sum(e.value[1]) for e in stream.epoch([], 1_000 * SECOND)]
    whole = 100 * sum(range(100))
    assert len(sums) > 10
    assert (sums[-1] if mode == AccumulationMode.ACCUMULATING else sum(sums)) == whole
    assert most < 600  # bytes, with the names of the rows


def check_against_beam(windowing: core.Windowing, epochs: list[Any]) -> None:
    stream, naive = Stream(windowing, general=True), Naive(windowing)
    holding = Naive(windowing, holds_behind=False)
    now = 0
    for data, seconds, later in epochs:
        now += later * SECOND
        found = events(windowing, [(k, v, t * SECOND) for k, v, t in data])
        ours = stream.epoch(found, seconds * SECOND, now)
        theirs = naive.epoch(found, seconds * SECOND, now)
        assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
        holding.epoch(found, seconds * SECOND, now)
        # An index may be behind, but not the watermark.
        assert min(stream.hold, stream.watermark) == min(holding.hold(), stream.watermark)
    ours, theirs = stream.epoch([], MAX, now), naive.epoch([], MAX, now)
    assert Counter(map(pane, ours)) == Counter(map(pane, theirs))
    assert stream.store.rows == {}


def at(windowing: core.Windowing, *seconds: int, key: str = "k") -> list[Any]:
    """Elements of one key whose values are their times."""
    return events(windowing, [(key, t, t * SECOND) for t in seconds])


def told(panes: list[Any]) -> list[tuple[Any, list[Any], str, bool]]:
    """What a reader of a pane sees: key, values, timing, whether it is the last."""
    return [
        (p.value[0], p.value[1], PaneInfoTiming.to_string(p.pane_info.timing), p.pane_info.is_last)
        for p in panes
    ]


def rows_of(stream: Stream, kind: Kind) -> int:
    return sum(kind_of(row) is kind for row in stream.store.rows)


def test_two_sessions_of_earlier_epochs_leave_as_one_when_an_element_joins_them() -> None:
    windowing = core.Windowing(Bursts(10))
    stream = Stream(windowing)
    assert stream.epoch(at(windowing, 1), 0) == []
    assert stream.epoch(at(windowing, 15), 0) == []
    assert stream.epoch(at(windowing, 8), 0) == []
    assert rows_of(stream, Kind.TRIGGER_VALUES) == 3
    assert stream.epoch([], 24 * SECOND) == []
    (out,) = stream.epoch([], 25 * SECOND)
    assert sorted(out.value[1]) == [1, 8, 15]
    assert out.windows == (window.IntervalWindow(1, 25),)
    assert out.timestamp.micros == 25 * SECOND - 1
    stream.epoch([], 26 * SECOND)
    assert stream.store.rows == {}


def test_late_elements_fire_again_within_the_lateness_and_are_dropped_after_it() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), accumulation_mode=ACCUMULATING, allowed_lateness=20
    )
    stream = Stream(windowing)
    stream.epoch(at(windowing, 1), 0)
    assert told(stream.epoch([], 10 * SECOND)) == [("k", [1], "ON_TIME", False)]
    assert told(stream.epoch(at(windowing, 2), 30 * SECOND - 1)) == [("k", [1, 2], "LATE", False)]
    assert told(stream.epoch(at(windowing, 3), 30 * SECOND)) == [("k", [1, 2, 3], "LATE", False)]
    assert stream.dropped == 0
    assert stream.store.rows == {}
    assert stream.epoch(at(windowing, 4), 40 * SECOND) == []
    assert stream.dropped == 1


def test_elements_after_the_trigger_has_finished_are_dropped_and_counted() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), trigger.AfterCount(2), DISCARDING, allowed_lateness=5
    )
    stream = Stream(windowing)
    assert told(stream.epoch(at(windowing, 1, 2), 0)) == [("k", [1, 2], "EARLY", True)]
    assert stream.epoch(at(windowing, 3, 4), 0) == []
    assert stream.dropped == 2
    assert stream.epoch([], 16 * SECOND) == []
    assert stream.store.rows == {}


def test_what_no_trigger_let_out_leaves_in_a_last_pane_when_the_window_expires() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), trigger.AfterCount(5), DISCARDING, allowed_lateness=5
    )
    stream = Stream(windowing)
    stream.epoch(at(windowing, 1, 2), 0)
    assert stream.hold == 10 * SECOND - 1_000
    assert stream.epoch([], 15 * SECOND - 1) == []
    (out,) = stream.epoch([], 15 * SECOND)
    assert told([out]) == [("k", [1, 2], "ON_TIME", True)]
    assert out.timestamp.micros == 10 * SECOND - 1
    assert stream.hold == MAX
    assert stream.store.rows == {}


def test_a_pane_that_was_let_out_is_not_repeated_when_the_window_expires() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), trigger.Repeatedly(trigger.AfterCount(2)), ACCUMULATING
    )
    stream = Stream(windowing)
    assert told(stream.epoch(at(windowing, 1, 2), 0)) == [("k", [1, 2], "EARLY", False)]
    assert stream.epoch([], 11 * SECOND) == []
    assert stream.store.rows == {}


def test_processing_time_fires_early_and_never_ends_a_window_the_watermark_has_not_passed() -> None:
    """The time of day is far behind the window's end in any stream that lags."""
    windowing = core.Windowing(
        window.FixedWindows(10),
        trigger.AfterWatermark(early=trigger.AfterProcessingTime(5)),
        DISCARDING,
    )
    stream = Stream(windowing)
    today = 1_000_000 * SECOND
    assert stream.epoch(at(windowing, 1), 2 * SECOND, today) == []
    assert stream.wakeup == today + 5 * SECOND
    assert stream.epoch([], 2 * SECOND, today + 5 * SECOND - 1) == []
    assert told(stream.epoch([], 2 * SECOND, today + 5 * SECOND)) == [("k", [1], "EARLY", False)]
    assert [stream.wakeup] == [None]  # `is None` would narrow its type for what follows
    assert stream.epoch(at(windowing, 3), 2 * SECOND, today + 6 * SECOND) == []
    assert stream.wakeup == today + 11 * SECOND
    out = stream.epoch([], 10 * SECOND, today + 7 * SECOND)
    assert told(out) == [("k", [3], "ON_TIME", True)]


def test_a_jump_of_the_watermark_fires_windows_in_the_order_of_their_ends() -> None:
    windowing = core.Windowing(window.FixedWindows(10), allowed_lateness=100)
    stream = Stream(windowing)
    stream.epoch(at(windowing, 35, 5, key="a") + at(windowing, 15, key="b"), 0)
    out = stream.epoch(at(windowing, 25, key="b"), 40 * SECOND)
    assert [p.value for p in out] == [("a", [5]), ("b", [15]), ("b", [25]), ("a", [35])]


def test_an_epoch_without_input_touches_only_what_is_due() -> None:
    windowing = core.Windowing(Bursts(10))
    stream = Stream(windowing)
    for number in range(100):
        stream.epoch(at(windowing, 20 + number, key=f"k{number}"), 0)
    stream.epoch([], 10 * SECOND, 5)
    assert (stream.store.gets, stream.store.writes) == (0, 0)
    assert stream.store.scanned == 1  # the first hold
    assert [p.value for p in stream.epoch([], 30 * SECOND, 6)] == [("k0", [20])]
    assert stream.store.gets == 2  # its record and its values
    assert stream.store.scanned == 2


def test_a_session_that_grows_is_indexed_anew_only_when_it_is_woken() -> None:
    windowing = core.Windowing(Bursts(10))
    stream = Stream(windowing)
    stream.epoch(at(windowing, 0), 0)
    assert stream.store.writes == 4  # values, record, and the two indexes it stands in
    for seconds in range(1, 9):
        stream.epoch(at(windowing, seconds), seconds * SECOND)
        assert stream.store.writes == 2
    assert stream.hold == 10 * SECOND - 1_000
    assert stream.epoch([], 10 * SECOND) == []  # woken, as it stood in the index at first
    assert stream.hold == 18 * SECOND - 1_000
    assert rows_of(stream, Kind.TRIGGER_EVENT) == rows_of(stream, Kind.TRIGGER_HOLD) == 1
    (out,) = stream.epoch([], 18 * SECOND)
    assert out.value == ("k", [*range(9)])


def test_values_in_many_rows_are_put_into_one_when_a_pane_has_read_them() -> None:
    windowing = core.Windowing(
        window.FixedWindows(100), trigger.Repeatedly(trigger.AfterCount(12)), ACCUMULATING
    )
    stream = Stream(windowing)
    for seconds in range(11):
        assert stream.epoch(at(windowing, seconds), 0) == []
    assert rows_of(stream, Kind.TRIGGER_VALUES) == 11
    assert told(stream.epoch(at(windowing, 11), 0)) == [("k", [*range(12)], "EARLY", False)]
    assert rows_of(stream, Kind.TRIGGER_VALUES) == 1
    out = stream.epoch(at(windowing, *range(12, 24)), 0)
    assert told(out) == [("k", [*range(24)], "EARLY", False)]


def test_an_epoch_that_failed_leaves_nothing_behind() -> None:
    windowing = core.Windowing(window.Sessions(10))
    stream = Stream(windowing, rebuild=False)

    def fail(values: list[Any], meta: Any) -> None:
        raise ZeroDivisionError

    (row,) = stream.tuples(at(windowing, 1))
    stream.grouper.attach(MemoryStore(), MIN)
    stream.grouper.add(row.kind, row.elements, row.payload)
    with pytest.raises(ZeroDivisionError):
        stream.grouper.advance(20 * SECOND, 0, fail)
    stream.epoch(at(windowing, 2), 0)
    (out,) = stream.epoch([], 12 * SECOND)
    assert out.value == ("k", [2])


def test_a_grouping_is_not_closed_over_elements_that_were_never_looked_at() -> None:
    windowing = core.Windowing(window.Sessions(10))
    stream = Stream(windowing)
    (row,) = stream.tuples(at(windowing, 1))
    stream.grouper.attach(stream.store, MIN)
    stream.grouper.add(row.kind, row.elements, row.payload)
    with pytest.raises(StateError):
        stream.grouper.flush()


def test_late_elements_that_wait_do_not_hold_the_watermark_back() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10),
        trigger.AfterWatermark(late=trigger.AfterCount(3)),
        DISCARDING,
        allowed_lateness=100,
    )
    stream = Stream(windowing)
    assert told(stream.epoch(at(windowing, 1), 50 * SECOND)) == [("k", [1], "ON_TIME", False)]
    assert stream.epoch(at(windowing, 2), 50 * SECOND) == []
    assert stream.hold == MAX
    (out,) = stream.epoch(at(windowing, 3, 4), 50 * SECOND)
    assert told([out]) == [("k", [2, 3, 4], "LATE", False)]
    assert out.timestamp.micros == 10 * SECOND - 1


def test_the_default_windowing_may_take_the_general_path_too() -> None:
    windowing = core.Windowing(window.GlobalWindows())
    stream = Stream(windowing, general=True)
    stream.epoch(at(windowing, 1), 0)
    stream.epoch(at(windowing, 2), 5 * SECOND)
    assert told(stream.epoch(at(windowing, 3), MAX)) == [("k", [1, 2, 3], "ON_TIME", False)]
    assert stream.store.rows == {}


def test_a_hold_that_moves_away_from_the_end_of_its_window_is_indexed_at_once() -> None:
    windowing = core.Windowing(
        window.Sessions(10), timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST
    )
    stream = Stream(windowing)
    stream.epoch(at(windowing, 0), 0)
    assert stream.hold == 0
    stream.epoch(at(windowing, 4), 3 * SECOND)
    assert stream.hold == 4 * SECOND
