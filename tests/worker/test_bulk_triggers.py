"""Plain pairs travel in bulk to groupings with any trigger, and give what Beam gives."""

from __future__ import annotations

import marshal
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.exchange.grouping_kind import spans_suffice
from headrace.worker.exchange.super_tuples import PayloadKind
from tests.worker.harness import collect, in_millis, in_order, on_beam, on_headrace
from tests.worker.stream_groups import SECOND, Stream, events

EARLY = trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1))


class Pairwise(window.WindowFn):  # type: ignore[misc]
    """Windows of a user's own: of 10 seconds, and two that begin in one minute become one."""

    def assign(self, context: Any) -> list[window.IntervalWindow]:
        return [window.IntervalWindow(context.timestamp, context.timestamp + 10)]

    def merge(self, context: Any) -> None:
        minutes: dict[int, list[window.IntervalWindow]] = {}
        for found in context.windows:
            minutes.setdefault(int(found.start) // 60, []).append(found)
        for found in minutes.values():
            if len(found) > 1:
                both = window.IntervalWindow(
                    min(one.start for one in found), max(one.end for one in found)
                )
                context.merge(found, both)

    def get_window_coder(self) -> Any:
        return window.Sessions(1).get_window_coder()


FNS = [
    window.FixedWindows(10), window.SlidingWindows(10, 5), window.Sessions(3), Pairwise(),
]


def windowing(fn: Any, combiner: Any = TimestampCombiner.OUTPUT_AT_EOW) -> core.Windowing:
    return core.Windowing(fn, EARLY, AccumulationMode.DISCARDING, combiner)


@pytest.mark.parametrize("fn", FNS, ids=lambda fn: type(fn).__name__)
def test_a_bounded_grouping_gives_what_beam_gives(fn: Any) -> None:
    """Values that are no plain ones stand among others of their key."""

    def build(p: beam.Pipeline) -> None:
        made = [
            TimestampedValue((i % 3, {"a": i} if i % 5 == 0 else (i, "x")), i * 1.5)
            for i in range(30)
        ]
        _ = (
            p
            | beam.Create([0])
            | beam.FlatMap(lambda _: made)
            | beam.WindowInto(
                fn, trigger=trigger.Repeatedly(trigger.AfterWatermark()),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, values: (k, sorted(map(repr, values))))
            | collect(times=True)
        )

    expected, _ = on_beam(build)
    found, _ = on_headrace(build)
    assert in_order(in_millis(found["out"])) == in_order(in_millis(expected["out"]))


@pytest.mark.parametrize("fn", FNS, ids=lambda fn: type(fn).__name__)
def test_pairs_travel_with_the_bounds_of_their_windows(fn: Any) -> None:
    """By hand: bounds are whole milliseconds, as Beam's coder leaves them."""
    stream = Stream(windowing(fn), general=True)
    rows = stream.tuples(events(stream.windowing, [("a", 1, 4 * SECOND), ("a", 2, 5 * SECOND)]))
    assert {row.kind for row in rows} == {PayloadKind.GROUPED_SPANS}
    spans = set()
    for row in rows:
        _, every = marshal.loads(row.payload)
        spans |= {one for columns in every for one in zip(*columns, strict=True)}
    assigned = {
        (at.start.micros, at.end.micros, value)
        for value, second in ((1, 4), (2, 5))
        for at in fn.assign(window.WindowFn.AssignContext(Timestamp(second), None))
    }
    assert spans == assigned


def test_times_travel_where_panes_carry_them_and_windows_that_are_no_intervals_too() -> None:
    assert spans_suffice(windowing(window.FixedWindows(10)))
    assert not spans_suffice(windowing(window.FixedWindows(10), TimestampCombiner.OUTPUT_AT_LATEST))
    assert not spans_suffice(windowing(window.GlobalWindows()))
    stream = Stream(windowing(window.GlobalWindows()), general=True)
    rows = stream.tuples(events(stream.windowing, [("a", 1, SECOND)]))
    assert {row.kind for row in rows} == {PayloadKind.KEYED_ROWS}
