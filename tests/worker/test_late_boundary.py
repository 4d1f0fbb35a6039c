"""The moment at which a window is over, on every path that can drop an element.

The times are written out by hand from Beam's model: the window [0, 10) is droppable as soon as its
last moment plus the allowed lateness is before the watermark, so at 10 s without lateness and at
15 s with five seconds of it, and not a microsecond earlier.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.plan.slices import Slices
from headrace.worker.batched.batches import Columns
from headrace.worker.grouping.general import GeneralGrouper
from headrace.worker.grouping.lateness import Lateness
from headrace.worker.grouping.panes import WindowTables
from headrace.worker.grouping.sessions import SessionTables
from headrace.worker.grouping.sliced_panes import SlicedTables
from headrace.worker.grouping.tables import TableGrouper
from headrace.worker.grouping.triggers import TriggeredGroups
from headrace.worker.userstate.cell_rows import Step
from tests.worker.stream_groups import ANY, MAX, SECOND, Stream, events, windowed

LATENESS = 5
FIXED = window.FixedWindows(10)
AT_EARLIEST = window.TimestampCombiner.OUTPUT_AT_EARLIEST

#: Takes a watermark, then gives one element of [0, 10); says how many were dropped.
Path = Callable[[int], int]


def default_panes(watermark: int) -> int:
    stream = Stream(core.Windowing(FIXED))
    assert isinstance(stream.grouper, WindowTables)
    return dropped_by(stream, watermark)


def sliced_panes(watermark: int) -> int:
    windowing = core.Windowing(window.SlidingWindows(10, 5))
    stream = Stream(windowing, slices=Slices(size=10 * SECOND, period=5 * SECOND, offset=0))
    assert isinstance(stream.grouper, SlicedTables)
    return dropped_by(stream, watermark)


def single_windows_beside_slices(watermark: int) -> int:
    windowing = core.Windowing(window.SlidingWindows(10, 5))
    stream = Stream(windowing, slices=Slices(size=10 * SECOND, period=5 * SECOND, offset=0))
    (both,) = events(windowing, [("k", 1, 7 * SECOND)])
    (first,) = (w for w in both.windows if w.end.micros == 10 * SECOND)
    stream.epoch([], watermark)
    stream.epoch([type(both)(both.value, both.timestamp, (first,))], watermark)
    return stream.dropped


def triggers_over_tables(watermark: int) -> int:
    stream = Stream(core.Windowing(FIXED, allowed_lateness=LATENESS))
    assert isinstance(stream.grouper, TriggeredGroups)
    assert isinstance(stream.grouper._intake, TableGrouper)
    return dropped_by(stream, watermark)


def triggers_over_elements(watermark: int) -> int:
    stream = Stream(
        core.Windowing(
            FIXED,
            trigger.AfterWatermark(late=trigger.AfterCount(1)),
            trigger.AccumulationMode.DISCARDING,
            AT_EARLIEST,
            LATENESS,
        )
    )
    assert isinstance(stream.grouper, TriggeredGroups)
    assert isinstance(stream.grouper._intake, GeneralGrouper)
    return dropped_by(stream, watermark)


def merging_windows(watermark: int) -> int:
    """The element's own window counts, before it is merged with others that are still open."""
    windowing = core.Windowing(window.Sessions(3), allowed_lateness=LATENESS)
    stream = Stream(windowing, general=True)
    assert isinstance(stream.grouper, TriggeredGroups)
    return dropped_though_it_would_join(stream, watermark)


def sessions(watermark: int) -> int:
    stream = Stream(core.Windowing(window.Sessions(3), allowed_lateness=LATENESS))
    assert isinstance(stream.grouper, SessionTables)
    return dropped_though_it_would_join(stream, watermark)


def dropped_though_it_would_join(stream: Stream, watermark: int) -> int:
    windowing = stream.windowing
    stream.epoch(events(windowing, [("k", 0, 9 * SECOND)]), watermark)  # [9, 12)
    stream.epoch([windowed(windowing, "k", 1, 7 * SECOND)], watermark)  # [7, 10)
    return stream.dropped


def stateful_par_do(watermark: int) -> int:
    late = Lateness(LATENESS * SECOND)
    late.attach(watermark)
    late.in_time([1], Columns([0], [(IntervalWindow(0, 10),)], [PANE_INFO_UNKNOWN]))
    return late.dropped


def dropped_by(stream: Stream, watermark: int) -> int:
    stream.epoch([], watermark)
    stream.epoch(events(stream.windowing, [("k", 1, 7 * SECOND)]), watermark)
    return stream.dropped


@pytest.mark.parametrize("path", [default_panes, sliced_panes, single_windows_beside_slices])
def test_without_lateness_a_window_is_over_when_the_watermark_is_at_its_end(path: Path) -> None:
    assert path(10 * SECOND - 1) == 0
    assert path(10 * SECOND) == 1


@pytest.mark.parametrize(
    "path",
    [triggers_over_tables, triggers_over_elements, merging_windows, sessions, stateful_par_do],
)
def test_with_lateness_a_window_is_over_that_much_after_its_end(path: Path) -> None:
    assert path(15 * SECOND - 1) == 0
    assert path(15 * SECOND) == 1


def test_the_state_of_a_window_goes_when_its_elements_would_be_dropped() -> None:
    coder = FIXED.get_window_coder()
    step = Step("t", 0, ANY, coder, LATENESS * SECOND)
    assert step.end(coder.encode(IntervalWindow(0, 10))) == 15 * SECOND - 1


def test_a_trigger_forgets_a_window_when_its_elements_would_be_dropped() -> None:
    windowing = core.Windowing(FIXED, allowed_lateness=LATENESS)
    stream = Stream(windowing)
    stream.epoch(events(windowing, [("k", 1, 7 * SECOND)]), 15 * SECOND - 1)
    assert stream.store.rows
    stream.epoch([], 15 * SECOND)
    assert stream.store.rows == {}


def test_at_the_end_of_time_every_window_is_over_whatever_the_lateness() -> None:
    windowing = core.Windowing(window.GlobalWindows(), allowed_lateness=10 * 24 * 3_600)
    stream = Stream(windowing)
    (pane,) = stream.epoch(events(windowing, [("k", 1, 0)]), MAX)
    assert pane.value == ("k", [1])
    assert stream.store.rows == {}
