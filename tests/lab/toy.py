"""A suite small enough to be checked by hand: numbers, and how often each comes in ten seconds.

Number i is `i % keys`, at second i of event time. So a window of ten seconds holds ten numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lab.catalog import Catalog
from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.parameters import Choice, Flag, Real, Whole, check, setting
from headrace.lab.workload import Column, Kind, Mode, Refusal, Row, Workload

SECOND = 1_000_000
START = 1_600_000_000 * SECOND  # begins a window of ten seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ToySettings:
    events: int = setting(100, Whole(1), "How many numbers there are.")
    rate: int = setting(1, Whole(1, 1000), "Numbers per second of event time.")
    keys: int = setting(3, Whole(1, 10), "How many different numbers there are.")
    share: float = setting(0.5, Real(0, 1), "Of no effect at all, 100 % sure.")
    colour: str = setting("red", Choice(("red", "blue")), "Of no effect either.")
    loud: bool = setting(False, Flag(), "Nor this one.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class ToyGenerator:
    settings: ToySettings

    @property
    def events(self) -> int:
        return self.settings.events

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMON_FIELDS, pa.field("value", pa.int64())])

    def _micros(self, number: int) -> int:
        return START + number * SECOND // self.settings.rate

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        numbers = range(start, start + count)
        micros = [self._micros(n) for n in numbers]
        columns = [
            pa.array(numbers, pa.int64()), pa.array(micros, pa.int64()).cast(self.schema[1].type),
            pa.array([m * 1000 for m in micros], pa.int64()),
            pa.array([n % self.settings.keys for n in numbers], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        numbers = range(start, start + count)
        micros = [self._micros(n) for n in numbers]
        return [(n % self.settings.keys, at) for n, at in zip(numbers, micros, strict=True)], micros

    def watermark(self, number: int) -> int:
        return self._micros(number)

    def due(self, number: int) -> int:
        return number * SECOND // self.settings.rate

    def to_line(self, element: Any) -> str:
        return json.dumps({"value": element[0], "at": element[1]})

    def from_line(self, line: str) -> tuple[Any, int]:
        try:
            told = json.loads(line)
            return (int(told["value"]), int(told["at"])), int(told["at"])
        except (KeyError, TypeError) as error:
            msg = f"no number: {line}"
            raise ValueError(msg) from error


class _Row(beam.DoFn):  # type: ignore[misc]
    def process(self, counted: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> Any:
        yield int(window.start), *counted


class Counts(beam.PTransform):  # type: ignore[misc]
    def expand(self, numbers: Any) -> Any:
        return (
            numbers
            | beam.WindowInto(beam.window.FixedWindows(10))
            | beam.Map(lambda number: (number[0], 1))
            | beam.CombinePerKey(sum)
            | beam.ParDo(_Row())
        )


class Forgetful(beam.PTransform):  # type: ignore[misc]
    """Counts, but loses the number 0 and doubles the number 1."""

    def expand(self, numbers: Any) -> Any:
        rows = numbers | Counts() | beam.Filter(lambda row: row[1] != 0)
        return rows | beam.FlatMap(lambda row: [row] * (2 if row[1] == 1 else 1))


def counts(log: str, settings: ToySettings) -> list[Row]:
    """The oracle: reads the log, counts in plain Python."""
    found: Counter[tuple[int, int]] = Counter()
    for path in sorted(Path(log).parent.glob(Path(log).name)):
        for row in pq.read_table(path).to_pylist():
            found[row["nanos"] // 10**10 * 10, row["value"]] += 1
    return [(window, value, count) for (window, value), count in found.items()]


def native_counts(events: Any, settings: ToySettings) -> Any:
    from pyspark.sql import functions

    span = functions.window("time", "10 seconds")
    return (
        events.withWatermark("time", "0 seconds").groupBy(span.alias("window"), "value").count()
        .selectExpr("unix_seconds(window.start) AS start", "value", "`count` AS times")
    )


NO_TOYS = Refusal(reason="Spark has no toys")
COLUMNS = (Column("start", Kind.LONG), Column("value", Kind.LONG), Column("times", Kind.LONG))


def _workload(name: str, **changes: Any) -> Workload:
    fields: dict[str, Any] = {
        "suite": "toy", "name": name, "title": "How often does each number come in ten seconds?",
        "settings": ToySettings, "generator": ToyGenerator, "columns": COLUMNS,
        "build": lambda settings: Counts(), "oracle": f"{__name__}:counts",
        "native": f"{__name__}:native_counts",
    }
    return Workload(**{**fields, **changes})


WORKLOADS = (
    _workload("counts"),
    _workload("forgetful", build=lambda settings: Forgetful()),
    _workload(
        "batch-only", modes=(Mode.BATCH,), native=NO_TOYS,
        title="The same in batch alone",
    ),
)
CATALOG = Catalog({"toy": __name__})
