"""Groups are those of Beam's own trigger driver: any data, windows, trigger, shards and memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import core, trigger, window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.worker.batched.batches import batch_of
from headrace.worker.batched.batches import elements as elements_of
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of
from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.grouping.choose_bounded import make_grouper

ANY = coders.FastPrimitivesCoder()
SMALL = settings(max_examples=40, deadline=None)


class Bursts(window.WindowFn):  # type: ignore[misc]
    """Merging windows that Beam does not know: a gap of two seconds after even times, else five."""

    def assign(self, context: Any) -> list[Any]:
        gap = 2 if int(context.timestamp.seconds()) % 2 == 0 else 5
        return [window.IntervalWindow(context.timestamp, context.timestamp + gap)]

    def merge(self, merge_context: Any) -> None:
        merged: list[Any] = []
        for w in sorted(merge_context.windows, key=lambda w: w.start):
            if merged and merged[-1][-1].end > w.start:
                merged[-1].append(w)
            else:
                merged.append([w])
        for run in merged:
            if len(run) > 1:
                whole = window.IntervalWindow(run[0].start, max(w.end for w in run))
                merge_context.merge(run, whole)

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


DISCARDING = trigger.AccumulationMode.DISCARDING
ACCUMULATING = trigger.AccumulationMode.ACCUMULATING
TRIGGERED = [
    (trigger.AfterCount(3), DISCARDING),
    (trigger.Repeatedly(trigger.AfterCount(2)), DISCARDING),
    (trigger.Repeatedly(trigger.AfterCount(2)), ACCUMULATING),
    (trigger.AfterEach(trigger.AfterCount(2), trigger.AfterCount(1)), DISCARDING),
    (trigger.AfterAny(trigger.AfterCount(4), trigger.AfterWatermark()), ACCUMULATING),
    (trigger.OrFinally(trigger.Repeatedly(trigger.AfterCount(1)), trigger.AfterCount(3)),
     DISCARDING),
    (trigger.AfterWatermark(early=trigger.AfterCount(2)), ACCUMULATING),
    (trigger.AfterWatermark(late=trigger.AfterCount(1)), DISCARDING),
]
WINDOW_FNS = [
    window.GlobalWindows(),
    window.FixedWindows(10),
    window.FixedWindows(7, offset=3),
    window.SlidingWindows(10, 5),
    window.SlidingWindows(10, 3),
    window.SlidingWindows(3, 10),
    window.Sessions(4),
    Bursts(),
]
DEFAULT = [core.Windowing(fn) for fn in WINDOW_FNS]
OTHERS = [
    core.Windowing(fn, when, mode)
    for fn in (window.GlobalWindows(), window.FixedWindows(10), window.SlidingWindows(10, 3))
    for when, mode in TRIGGERED
] + [
    core.Windowing(window.FixedWindows(10), timestamp_combiner=combiner)
    for combiner in (
        window.TimestampCombiner.OUTPUT_AT_EARLIEST, window.TimestampCombiner.OUTPUT_AT_LATEST,
    )
]  # fmt: skip

PLAIN_KEYS = st.sampled_from([0, 1, -5, 1 << 70, "a", "", b"a", (1, "a"), ("a", b"")])
ODD_KEYS = st.sampled_from([1.0, True, False, 0.0, -0.0, None, (1, 1.0), (True, None), 1.5])
VALUES = (
    st.integers(-3, 3)
    | st.sampled_from(["x", b"x", 1.5, None, True, (1, "x"), (1, (2, 3)), 1 << 80])
    | st.lists(st.integers(0, 2), max_size=3)
    | st.just([[1], {"k": 1}])
)
#: Microseconds, but whole milliseconds: Beam's window coder keeps no more.
TIMES = st.integers(-40_000, 40_000).map(lambda millis: millis * 1_000)
DATA = st.lists(st.tuples(PLAIN_KEYS | ODD_KEYS, VALUES, TIMES), max_size=40)

#: What one pane is, in a form that can be counted.
Pane = tuple[str, tuple[str, ...], str, int, PaneInfo]


def windowed(data: list[tuple[Any, Any, int]], windowing: core.Windowing) -> list[WindowedValue]:
    """Give each element the windows Beam assigns."""
    found = []
    for key, value, micros in data:
        moment = Timestamp(micros=micros)
        context = window.WindowFn.AssignContext(moment, value)
        windows = tuple(windowing.windowfn.assign(context))
        if windows:  # a sliding window shorter than its period has holes
            found.append(WindowedValue((key, value), moment, windows))
    return found


def pane(element: Any) -> Pane:
    key, values = element.value
    (only,) = element.windows
    return (
        repr(key), tuple(sorted(map(repr, values))), repr(only), element.timestamp.micros,
        element.pane_info,
    )  # fmt: skip


def beams_panes(elements: list[WindowedValue], windowing: core.Windowing) -> Counter[Pane]:
    """What Beam's trigger driver gives, key by key."""
    by_key: dict[bytes, list[Any]] = defaultdict(list)
    for element in elements:
        key, value = element.value
        by_key[ANY.encode(key)].append(element.with_value(value))
    driver = trigger.create_trigger_driver(windowing, True)
    return Counter(
        pane(_at_the_end(found) if windowing.is_default() else found)
        for name, of_key in by_key.items()
        for found in driver.process_entire_key(ANY.decode(name), of_key)
    )


def _at_the_end(found: Any) -> Any:
    """The driver leaves the time open in this one case; runners stamp the end of the window."""
    whole = window.GlobalWindow()
    return WindowedValue(found.value, whole.max_timestamp(), (whole,), found.pane_info)


def our_panes(
    elements: list[WindowedValue],
    windowing: core.Windowing,
    shards: int,
    memory_bytes: int,
    batch: int = 7,
) -> Counter[Pane]:
    """What two writers and a grouper per shard give; the second writer takes single elements."""
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([ANY, ANY]), windowing.windowfn.get_window_coder()
    )
    grouping = grouping_of(windowing)
    rows: list[SuperTuple] = []
    writers = [
        GroupWriter(0, coder, grouping, rows.append, shards=shards, super_tuple_bytes=64)
        for _ in range(2)
    ]
    half = len(elements) // 2
    for start in range(0, half, batch):
        writers[0].write(*batch_of(elements[start : min(start + batch, half)]))
    for element in elements[half:]:
        writers[1].process(element)
    for writer in writers:
        writer.flush()
    assert sum(row.elements for row in rows) == len(elements)
    panes: Counter[Pane] = Counter()
    shard_of: dict[str, int] = {}
    for shard in range(shards):
        grouper = make_grouper(coder, windowing, grouping, memory_bytes)
        for row in rows:
            if row.shard == shard:
                grouper.add(row.kind, row.elements, row.payload)

        def push(values: list[Any], meta: Any, shard: int = shard) -> None:
            for element in elements_of(values, meta):
                key = repr(element.value[0])
                assert shard_of.setdefault(key, shard) == shard
                panes[pane(element)] += 1

        grouper.emit(push)
    return panes


@SMALL
@given(st.sampled_from(DEFAULT), DATA, st.integers(1, 4))
def test_groups_of_the_default_trigger_are_beams(
    windowing: core.Windowing, data: list[Any], shards: int
) -> None:
    elements = windowed(data, windowing)
    assert our_panes(elements, windowing, shards, 1 << 30) == beams_panes(elements, windowing)


@SMALL
@given(st.sampled_from(OTHERS), DATA, st.integers(1, 4))
def test_panes_of_every_other_trigger_are_beams(
    windowing: core.Windowing, data: list[Any], shards: int
) -> None:
    # One writer and one element at a time: what early panes hold depends on the order of arrival.
    elements = windowed(data, windowing)
    ours = our_panes(elements, windowing, shards, 1 << 30, batch=1)
    assert ours == beams_panes(elements, windowing)


@SMALL
@given(st.sampled_from(DEFAULT), DATA, st.integers(1, 3), st.integers(1, 2_000))
def test_groups_that_do_not_fit_in_memory_are_the_same(
    windowing: core.Windowing, data: list[Any], shards: int, memory_bytes: int
) -> None:
    elements = windowed(data, windowing)
    spilled = our_panes(elements, windowing, shards, memory_bytes)
    assert spilled == our_panes(elements, windowing, shards, 1 << 30)


@SMALL
@given(
    st.lists(st.tuples(PLAIN_KEYS, VALUES, TIMES), max_size=60),
    st.sampled_from([window.FixedWindows(10), window.GlobalWindows()]),
)
def test_all_three_paths_give_the_same_groups(data: list[Any], fn: Any) -> None:
    """The general path is Beam's driver; a trigger that fires once, late, must change nothing."""
    fast = core.Windowing(fn)
    slow = core.Windowing(fn, trigger.AfterWatermark(), DISCARDING)
    assert grouping_of(fast) is not Grouping.GENERAL
    assert grouping_of(slow) is Grouping.GENERAL
    elements = windowed(data, fast)

    def groups(windowing: core.Windowing) -> Counter[Any]:
        return Counter(
            {found[:4]: count for found, count in our_panes(elements, windowing, 2, 1).items()}
        )

    assert groups(fast) == groups(slow)


def test_the_pane_of_a_global_group_is_the_only_one_and_on_time() -> None:
    windowing = core.Windowing(window.GlobalWindows())
    found = our_panes(windowed([("k", 1, 0), ("k", 2, 5)], windowing), windowing, 2, 1 << 30)
    end = window.GlobalWindow().max_timestamp().micros
    only = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    assert found == Counter({("'k'", ("1", "2"), "GlobalWindow", end, only): 1})


def test_a_processing_time_trigger_fires_once_at_the_end_of_a_bounded_input() -> None:
    windowing = core.Windowing(
        window.FixedWindows(10), trigger.Repeatedly(trigger.AfterProcessingTime(5)), DISCARDING
    )
    found = our_panes(windowed([("k", 1, 0), ("k", 2, 5_000)], windowing), windowing, 2, 1 << 30)
    assert [(p[0], p[1], p[2]) for p in found] == [("'k'", ("1", "2"), "[0.0, 10.0)")]
