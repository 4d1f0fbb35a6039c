"""What is the average value of each key, in every window of eight seconds, every four seconds?

Input:  Event(time in us, key, value, stream); the element's timestamp is the event's time.
Output: (key: int, window_start: int in ms since 1970, average: float, count: int), at the window's
        end.

`WORKLOAD` has windows by event time. `BY_ARRIVAL` has windows by the time of arrival, which are
others in every run; compared are the sums over all windows of a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from headrace.errors import OptionError
from headrace.lab.workload import ByColumns, Column, Kind, Refusal, Row, Workload
from headrace.lab.workloads.windowed.generator import WindowedGenerator
from headrace.lab.workloads.windowed.model import Event
from headrace.lab.workloads.windowed.settings import Settings
from headrace.lab.workloads.windowed.windows import ByArrival, by_event_time, start_ms


class SumAndCount(beam.CombineFn):  # type: ignore[misc]
    """The sum of some values, and how many there are. Whole numbers: exact in any order."""

    def create_accumulator(self) -> tuple[int, int]:
        """Nothing yet."""
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], value: int) -> tuple[int, int]:
        """Take one value."""
        return accumulator[0] + value, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Take several at once."""
        total, count = 0, 0
        for other, more in accumulators:
            total += other
            count += more
        return total, count

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give (sum, how many)."""
        return accumulator


def key_and_value(event: Event) -> tuple[int, int]:
    """Keep what is asked about."""
    return event[1], event[2]


def row(
    found: tuple[int, tuple[int, int]], window: Any = beam.DoFn.WindowParam
) -> tuple[int, int, float, int]:
    """Write an average with the window it belongs to."""
    key, (total, count) = found
    return key, start_ms(window), total / count, count


class Average(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key, window, combine."""

    def __init__(self, settings: Settings, into_windows: Any = by_event_time) -> None:
        super().__init__()
        self._settings = settings
        self._into_windows = into_windows

    def expand(self, events: Any) -> Any:
        """Build the steps."""
        combine = beam.CombinePerKey(SumAndCount())
        return (
            events
            | "Key and value" >> beam.Map(key_and_value).with_output_types(tuple[int, int])
            | "Windows" >> self._into_windows(self._settings)
            | "Combine" >> combine.with_output_types(tuple[int, tuple[int, int]])
            | "Rows" >> beam.Map(row).with_output_types(tuple[int, int, float, int])
        )


def event_of(row: Any) -> Event:
    """Make the event of the log's columns."""
    return Event(row.nanos // 1_000, row.key, row.value, row.stream)


class AverageOfRows(Average):
    """The same pipeline, from rows of the log's columns."""

    def expand(self, rows: Any) -> Any:
        """Make events of the rows."""
        return super().expand(rows | "Event" >> beam.Map(event_of).with_output_types(Event))


def build_by_arrival(settings: Settings) -> Average:
    """Give the pipeline with windows by arrival.

    Raises:
        OptionError: the slide does not divide the window, so events would be in one window more or
            less by chance, and no sum would be known beforehand.
    """
    if settings.window_size_sec % settings.slide_sec:
        msg = (
            f"slide_sec={settings.slide_sec} is outside its domain: a divisor of "
            f"window_size_sec={settings.window_size_sec}"
        )
        raise OptionError(msg)
    return Average(settings, ByArrival)


def sums(rows: Iterable[Row]) -> Counter[Row]:
    """Compare the counts and values of each key, summed over its windows.

    Of several results for a window the fullest counts.
    """
    fullest: dict[tuple[int, int], tuple[int, float]] = {}
    for key, start, average, count in rows:
        if fullest.get((key, start), (0, 0.0))[0] < count:
            fullest[key, start] = count, average
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for (key, _), (count, average) in fullest.items():
        counts[key] += count
        totals[key] += round(average * count)
    return Counter((key, counts[key], totals[key]) for key in counts)


_COLUMNS = (
    Column("key", Kind.LONG),
    Column("window_start", Kind.LONG),
    Column("average", Kind.DOUBLE),
    Column("count", Kind.LONG),
)

WORKLOAD = Workload(
    suite="windowed",
    name="aggregation",
    title="What is the average value of each key, in every window of eight seconds?",
    settings=Settings,
    generator=WindowedGenerator,
    columns=_COLUMNS,
    build=Average,
    oracle="headrace.lab.oracle.windowed:aggregation",
    native="headrace.lab.native.windowed:aggregation",
    by_columns=ByColumns(columns=("nanos", "key", "value", "stream"), build=AverageOfRows),
)

BY_ARRIVAL = Workload(
    suite="windowed",
    name="aggregation-by-arrival",
    title="What is the average value of each key, in windows of the time of arrival?",
    settings=Settings,
    generator=WindowedGenerator,
    columns=_COLUMNS,
    build=build_by_arrival,
    oracle="headrace.lab.oracle.windowed:aggregation_by_arrival",
    native=Refusal(
        reason="Spark closes a window of arrival with the first batch that starts after its end, "
        "so the last windows of a run that ends are never given"
    ),
    rule=sums,
)
