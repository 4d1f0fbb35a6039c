"""The pipeline that is run: all that keeps state between epochs, four ways to the same kind of row.

Its answer depends on neither where epochs end nor how the two sources interleave: no event is later
than the watermark allows, and every window is told of once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import Timestamp

from headrace.io import BoundedOutOfOrderness, ReadFromSpark
from headrace.lab.experiments.faults.data import CLASSES, DISORDER_SECONDS, WINDOW_SECONDS
from headrace.lab.experiments.faults.sinks import Write
from headrace.lab.experiments.faults.splittable import READERS, ReadFiles
from headrace.lab.experiments.faults.variants import PLAIN, Source, Variant

GAP_SECONDS = 4
BUCKET_MICROS = 60_000_000
#: One event in so many is joined with the rates.
SAMPLE = 5

Row = tuple[str, int, int, int, int, int]


class Tally(beam.CombineFn):  # type: ignore[misc]
    """Counts, adds, and mixes by exclusive or."""

    def create_accumulator(self) -> tuple[int, int, int]:
        """Nothing was counted yet."""
        return 0, 0, 0

    def add_input(self, mutable_accumulator: tuple[int, int, int], element: int) -> Any:
        """Take one value."""
        count, total, mix = mutable_accumulator
        return count + 1, total + element, mix ^ element

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int, int]]) -> Any:
        """Put partial tallies together."""
        count = total = mix = 0
        for one, two, three in accumulators:
            count, total, mix = count + one, total + two, mix ^ three
        return count, total, mix

    def extract_output(self, accumulator: tuple[int, int, int]) -> tuple[int, int, int]:
        """Give the three."""
        return accumulator


class Flush(beam.DoFn):  # type: ignore[misc]
    """Keeps a key's events in the global window; a timer tells of each minute once it is over."""

    EVENTS = userstate.BagStateSpec("events", TupleCoder((VarIntCoder(), VarIntCoder())))
    COUNT = userstate.CombiningValueStateSpec("count", combine_fn=sum)
    NEXT = userstate.ReadModifyWriteStateSpec("next", VarIntCoder())
    DUE = userstate.TimerSpec("due", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        at: Any = beam.DoFn.TimestampParam,
        events: Any = beam.DoFn.StateParam(EVENTS),  # noqa: B008 (Beam's way)
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
        following: Any = beam.DoFn.StateParam(NEXT),  # noqa: B008 (Beam's way)
        due: Any = beam.DoFn.TimerParam(DUE),  # noqa: B008 (Beam's way)
    ) -> None:
        """Keep an event and see that the timer fires at the end of the first minute kept."""
        events.add((at.micros, element[1]))
        count.add(1)
        end, known = _bucket_end(at.micros), following.read()
        if known is None or end < known:
            following.write(end)
            due.set(Timestamp(micros=end))

    @userstate.on_timer(DUE)  # type: ignore[untyped-decorator]
    def flush(
        self,
        key: str = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        events: Any = beam.DoFn.StateParam(EVENTS),  # noqa: B008 (Beam's way)
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
        following: Any = beam.DoFn.StateParam(NEXT),  # noqa: B008 (Beam's way)
        due: Any = beam.DoFn.TimerParam(DUE),  # noqa: B008 (Beam's way)
    ) -> Iterator[Row]:
        """Tell of the minutes that are over, keep the rest and set the timer for it."""
        over: dict[int, list[int]] = {}
        rest: list[tuple[int, int]] = []
        kept = list(events.read())
        if count.read() != len(kept):
            msg = f"{key}: the count says {count.read()}, the bag holds {len(kept)}"
            raise AssertionError(msg)
        for micros, value in kept:
            end = _bucket_end(micros)
            if end <= at.micros:
                over.setdefault(end, []).append(value)
            else:
                rest.append((micros, value))
        events.clear()
        count.clear()
        following.clear()
        for event in rest:
            events.add(event)
        if rest:
            count.add(len(rest))
            end = min(_bucket_end(micros) for micros, _ in rest)
            following.write(end)
            due.set(Timestamp(micros=end))
        for end, values in over.items():
            yield (key, end - BUCKET_MICROS, end, *_tally(values))


def build(
    pipeline: beam.Pipeline, spark: Any, source: Path, target: Path, variant: Variant = PLAIN
) -> None:
    """Make the pipeline: events and rates in, four folders of rows out."""
    if variant.source is Source.FRAMES:
        events, rates = from_frames(pipeline, spark, source)
    else:
        events, rates = _from_readers(pipeline, source)
    rates = rates | "RateWindows" >> beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
    windowed = events | "Windows" >> beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
    branches = {
        "totals": windowed | "Total" >> beam.CombinePerKey(Tally()) | "TotalRows" >> _Rows(),
        "sessions": (
            events
            | "Sessions" >> beam.WindowInto(window.Sessions(GAP_SECONDS))
            | "Group" >> beam.GroupByKey()
            | "Tell" >> beam.MapTuple(lambda key, values: (key, _tally(values)))
            | "SessionRows" >> _Rows()
        ),
        "flushes": events | "Flush" >> beam.ParDo(Flush()),
        "joined": (
            windowed
            | "Sample" >> beam.Filter(lambda pair: pair[1] % SAMPLE == 0)
            | "Price" >> beam.Map(_priced, beam.pvalue.AsDict(rates)).with_output_types(
                tuple[str, int]
            )
            | "Joined" >> beam.CombinePerKey(Tally())
            | "JoinedRows" >> _Rows()
        ),
    }
    for name, rows in branches.items():
        _ = rows | f"Write {name}" >> Write(variant.sinks[name], target / name)


def from_frames(
    pipeline: beam.Pipeline, spark: Any, source: Path, files: int = 1
) -> tuple[Any, Any]:
    """Read events and rates by streaming DataFrames, some files to a batch."""
    events = (
        pipeline
        | "Events" >> ReadFromSpark(
            _stream(
                spark, source / "events", "at timestamp, key string, value bigint", files
            ),
            ["key", "value"], timestamp="at", watermark=BoundedOutOfOrderness(DISORDER_SECONDS),
        )
        | "Pair" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[str, int])
    )
    rates = (
        pipeline
        | "Rates" >> ReadFromSpark(
            _stream(
                spark, source / "rates", "at timestamp, kind bigint, rate bigint", files
            ),
            ["kind", "rate"], timestamp="at",
        )
        | "ByKind" >> beam.Map(lambda row: (row.kind, row.rate)).with_output_types(tuple[int, int])
    )
    return events, rates


def _from_readers(pipeline: beam.Pipeline, source: Path) -> tuple[Any, Any]:
    events = pipeline | "Events" >> ReadFiles(
        source / "events", ("key", "value"), disorder=DISORDER_SECONDS, readers=READERS
    ).with_output_types(tuple[str, int])
    rates = pipeline | "Rates" >> ReadFiles(
        source / "rates", ("kind", "rate"), disorder=0, readers=1
    ).with_output_types(tuple[int, int])
    return events, rates


class _Rows(beam.PTransform):  # type: ignore[misc]
    """Puts a key, its window and its tally into one row."""

    def expand(self, pcoll: Any) -> Any:
        return pcoll | beam.Map(row_of)


def row_of(
    element: tuple[str, tuple[int, int, int]], span: Any = beam.DoFn.WindowParam
) -> Row:
    """Give a key, its window and its tally in one row."""
    key, (count, total, mix) = element
    return key, span.start.micros, span.end.micros, count, total, mix


def _priced(element: tuple[str, int], rates: dict[int, int]) -> tuple[str, int]:
    key, value = element
    return key, value * rates[value % CLASSES]


def _tally(values: Iterable[int]) -> tuple[int, int, int]:
    count = total = mix = 0
    for value in values:
        count, total, mix = count + 1, total + value, mix ^ value
    return count, total, mix


def _bucket_end(micros: int) -> int:
    return (micros // BUCKET_MICROS + 1) * BUCKET_MICROS


def _stream(spark: Any, folder: Path, schema: str, files: int) -> Any:
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))
