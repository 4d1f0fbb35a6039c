"""Which is the higher value of every two events with the same key in the same window, and by how
much?

Input:  Event(time in us, key, value, stream); stream is 0 or 1, and the element's timestamp is the
        event's time.
Output: (key: int, window_start: int in ms since 1970, higher: int, difference: int), one for every
        pair of an event of stream 0 and one of stream 1, at the window's end.

`WORKLOAD` has windows by event time. `BY_ARRIVAL` has windows by the time of arrival: which events
meet is another matter in every run, so only what no row may break is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.windowed.generator import WindowedGenerator
from headrace.lab.workloads.windowed.model import Event
from headrace.lab.workloads.windowed.settings import Settings
from headrace.lab.workloads.windowed.windows import ByArrival, by_event_time, start_ms


def keyed(event: Event) -> tuple[int, int]:
    """Key an event; value and stream become one number, which travels lighter than a pair."""
    return event[1], event[2] * 2 + event[3]


def pairs(
    group: tuple[int, Iterable[int]], window: Any = beam.DoFn.WindowParam
) -> Iterator[tuple[int, int, int, int]]:
    """Compare every event of the first stream with every one of the second."""
    key, tagged = group
    sides: tuple[list[int], list[int]] = ([], [])
    for number in tagged:
        sides[number & 1].append(number >> 1)
    firsts, seconds = sides
    start = start_ms(window)
    for second in seconds:
        for first in firsts:
            if first > second:
                yield key, start, first, first - second
            else:
                yield key, start, second, second - first


class Join(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key, window, group, pair.

    The streams arrive merged, so one grouping does what CoGroupByKey would first flatten for.
    """

    def __init__(self, settings: Settings, into_windows: Any = by_event_time) -> None:
        super().__init__()
        self._settings = settings
        self._into_windows = into_windows

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        return (
            events
            | "Key" >> beam.Map(keyed).with_output_types(tuple[int, int])
            | "Windows" >> self._into_windows(self._settings)
            | "Group" >> beam.GroupByKey()
            | "Pairs" >> beam.FlatMap(pairs).with_output_types(tuple[int, int, int, int])
        )


class JoinOfRows(beam.PTransform):  # type: ignore[misc]
    """The pipeline from rows of the log's columns, each stream a side of its own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, rows: Any) -> Any:
        """Build the steps."""
        sides = {
            name: (
                rows
                | f"Of {name}" >> beam.Filter(of_stream, number)
                | f"Key {name}" >> beam.Map(key_and_value).with_output_types(tuple[int, int])
                | f"Windows {name}" >> by_event_time(self._settings)
            )
            for number, name in enumerate(("first", "second"))
        }
        pairs = beam.FlatMap(pairs_of_sides).with_output_types(tuple[int, int, int, int])
        return sides | "Meet" >> beam.CoGroupByKey() | "Pairs" >> pairs


def of_stream(row: Any, number: int) -> bool:
    """Whether an event is of this stream."""
    return bool(row.stream == number)


def key_and_value(row: Any) -> tuple[int, int]:
    """Key an event's value."""
    return row.key, row.value


def pairs_of_sides(
    group: tuple[int, dict[str, Iterable[int]]], window: Any = beam.DoFn.WindowParam
) -> Iterator[tuple[int, int, int, int]]:
    """Compare every event of the first stream with every one of the second."""
    key, sides = group
    for second in sides["second"]:
        for first in sides["first"]:
            yield key, window.start.micros // 1_000, max(first, second), abs(first - second)


def build_by_arrival(settings: Settings) -> Join:
    """Give the pipeline with windows by arrival."""
    return Join(settings, ByArrival)


def breaches(rows: Iterable[Row]) -> Counter[Row]:
    """Give the rows that cannot be right whatever met: a right answer has none.

    A value is 1 at least, and windows start at whole seconds.
    """
    return Counter(
        row for row in rows if not (0 <= row[3] < row[2] and row[1] % 1_000 == 0 and row[0] >= 0)
    )


_COLUMNS = (
    Column("key", Kind.LONG),
    Column("window_start", Kind.LONG),
    Column("higher", Kind.LONG),
    Column("difference", Kind.LONG),
)


def two_streams(settings: Settings) -> WindowedGenerator:
    """Give the events of both streams, merged."""
    return WindowedGenerator(settings, streams=2)


WORKLOAD = Workload(
    suite="windowed",
    name="join",
    title="Of every two events with the same key and window: the higher value, and by how much?",
    settings=Settings,
    generator=two_streams,
    columns=_COLUMNS,
    build=Join,
    oracle="headrace.lab.oracle.windowed:join",
    native="headrace.lab.native.windowed:join",
    by_columns=ByColumns(columns=("key", "value", "stream"), build=JoinOfRows),
)

BY_ARRIVAL = Workload(
    suite="windowed",
    name="join-by-arrival",
    title="Of every two events with the same key that arrive in the same window: the higher value?",
    settings=Settings,
    generator=two_streams,
    columns=_COLUMNS,
    build=build_by_arrival,
    oracle="headrace.lab.oracle.windowed:join_by_arrival",
    native="headrace.lab.native.windowed:join_by_arrival",
    rule=breaches,
)
