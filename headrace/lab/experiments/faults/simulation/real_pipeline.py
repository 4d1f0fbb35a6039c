"""The pipeline of the schedules in which headrace's own tasks run, and its oracle in plain Python.

Readings of gauges in windows go four ways: summed by a grouping, counted in keyed state, added up
until a timer in event time fires, and put beside a side input whose window is complete only later.
What the four give goes to files, to a table and to Kafka. Each row is the same however the streams
come in epochs, so that one that is lost, doubled or made of state of another epoch shows.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import environments, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer

from headrace.compiler.compile import compile_pipeline
from headrace.io import BoundedOutOfOrderness, ReadFromSpark, WriteToKafka, WriteToSpark
from headrace.lab.experiments.faults.simulation.schedule import Schedule
from headrace.plan.supersteps import Plan
from headrace.testing import ScriptedStream

READINGS = "gauge string, level bigint, at bigint"
RATES = "rate bigint, at bigint"
FOUND = "what string, gauge string, at bigint, number bigint"
GAUGES = ("a", "b", "c")
WINDOW_SECONDS = 10
READINGS_IN_BATCH, READING_SECONDS = 4, 3
RATES_IN_BATCH, RATE_SECONDS = 3, 5
#: Readings come so many seconds out of order, and none is late.
ORDER_SECONDS = 6.0

Row = tuple[str, str, int, int]  # what it is, the gauge, a window or a level, a number


def readings_of(schedule: Schedule) -> list[list[tuple[str, int, int]]]:
    """Give the batches of readings: every level once, neighbours exchanged."""
    found = []
    for batch in range(schedule.batches):
        numbers = range(batch * READINGS_IN_BATCH, (batch + 1) * READINGS_IN_BATCH)
        rows = [(GAUGES[(n * n + n // 3) % len(GAUGES)], n, n * READING_SECONDS) for n in numbers]
        found.append([rows[i ^ 1] for i in range(len(rows))])
    return found


def rates_of(schedule: Schedule) -> list[list[tuple[int, int]]]:
    """Give the batches of rates: other ones in every schedule."""
    return [
        [
            (1 + (schedule.seed * 7 + n * 13) % 97, n * RATE_SECONDS)
            for n in range(batch * RATES_IN_BATCH, (batch + 1) * RATES_IN_BATCH)
        ]
        for batch in range(schedule.batches)
    ]


def streams(schedule: Schedule) -> dict[str, ScriptedStream]:
    """Give the streams, with all their batches."""
    readings, rates = ScriptedStream(READINGS), ScriptedStream(RATES)
    for batch in readings_of(schedule):
        readings.add(*batch)
    for others in rates_of(schedule):
        rates.add(*others)
    return {"Rates": rates, "Readings": readings}


def right_answer(schedule: Schedule) -> list[Row]:
    """Work the rows out by plain loops, which know nothing of epochs, watermarks and triggers."""
    by_window: dict[tuple[str, int], list[int]] = defaultdict(list)
    found: list[Row] = []
    rates: dict[int, int] = defaultdict(int)
    for others in rates_of(schedule):
        for rate, at in others:
            rates[_window(at)] += rate
    for batch in readings_of(schedule):
        for gauge, level, at in batch:
            levels = by_window[gauge, _window(at)]
            levels.append(level)
            found.append(("seen", gauge, level, len(levels)))
            found.append(("rated", gauge, level, rates[_window(at)]))
    for (gauge, start), levels in by_window.items():
        found.append(("sum", gauge, start, sum(levels)))
        found.append(("timed", gauge, start, len(levels)))
    return sorted(found)


def _window(at: int) -> int:
    return at // WINDOW_SECONDS * WINDOW_SECONDS


class Count(beam.DoFn):  # type: ignore[misc]
    """Tells how often a gauge came in a window so far, and at its end how often in all."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> Iterator[Row]:
        """Count."""
        seen.add(1)
        end.set(window.end)
        yield "seen", pair[0], pair[1], seen.read()

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
    ) -> Iterator[Row]:
        """Tell, and forget."""
        yield "timed", key, int(window.start), seen.read()
        seen.clear()


def _summed(
    pair: tuple[str, Iterable[int]], window: Any = beam.DoFn.WindowParam
) -> Iterator[Row]:
    yield "sum", pair[0], int(window.start), sum(pair[1])


def _rated(pair: tuple[str, int], rates: Iterable[int]) -> Row:
    return "rated", pair[0], pair[1], sum(rates)


def message_of(row: Row) -> tuple[str, str]:
    """Give the key and the value of a row's message."""
    return row[1], json.dumps(row)


def row_of(message: Any) -> Row:
    """Read a message."""
    what, gauge, at, number = json.loads(message[3])
    return what, gauge, at, number


def reads(readings: Any, rates: Any) -> dict[str, ReadFromSpark]:
    """Give the two reads, by their names."""
    return {
        "Rates": ReadFromSpark(rates, timestamp="at", watermark=BoundedOutOfOrderness(0)),
        "Readings": ReadFromSpark(
            readings, timestamp="at", watermark=BoundedOutOfOrderness(ORDER_SECONDS)
        ),
    }


def _windows() -> beam.PTransform:
    return beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))


@functools.cache
def plan(shards: int) -> Plan:
    """Compile the pipeline, once for each number of shards."""
    p = beam.Pipeline()
    read = reads(ScriptedStream(READINGS), ScriptedStream(RATES))
    rates = (
        p | "Rates" >> read["Rates"]
        | "Rate" >> beam.Map(lambda row: row.rate).with_output_types(int)
        | "Rate windows" >> _windows()
    )  # fmt: skip
    pairs = (
        p | "Readings" >> read["Readings"]
        | "Pair" >> beam.Map(lambda row: (row.gauge, row.level)).with_output_types(tuple[str, int])
        | "Windows" >> _windows()
    )  # fmt: skip
    rows = (
        pairs | "Group" >> beam.GroupByKey() | "Sum" >> beam.FlatMap(_summed),
        pairs | "Count" >> beam.ParDo(Count()),
        pairs | "Beside" >> beam.Map(_rated, rates=beam.pvalue.AsIter(rates)),
    ) | "All" >> beam.Flatten()
    _ = rows | "Files" >> WriteToSpark("/out", schema=FOUND)
    _ = rows | "Table" >> WriteToSpark(function=print, schema=FOUND)
    _ = (
        rows | "Message" >> beam.Map(message_of).with_output_types(tuple[str, str])
        | "Kafka" >> WriteToKafka("memory:1", "found", key="text", value="text")
    )  # fmt: skip
    proto = p.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    return compile_pipeline(proto, shards=shards, name="simulated", streaming=True)
