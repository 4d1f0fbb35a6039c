"""The pipeline of a soak: keys that live for a while and then die, twice over.

Every key comes a few times within its life and never again. Sessions close when a key has been
silent, and a stateful DoFn counts a key's rows until its timer fires: both must give back what they
held. The longer the life, the more keys are alive at the same rate of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import Sessions
from apache_beam.utils.timestamp import Duration

from headrace.io import ReadFromSpark

NAMESPACE = "soak"
#: Rows of each key.
TOUCHES = 4
#: Of the last rows, so that sessions do not close between two rows of a key.
OUT_OF_ORDER_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How fast rows come and how long keys live."""

    rows_per_second: int
    seconds: float  # after its last row, until a key is forgotten


def key_of(value: int) -> int:
    """Give the key of a row: neighbours share it, and it never comes again."""
    return value // TOUCHES


class Tally(beam.DoFn):  # type: ignore[misc]
    """Counts elements and adds their numbers to counters at the end of a bundle."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows = self._keys = 0

    def start_bundle(self) -> None:
        """Begin anew."""
        self._rows = self._keys = 0

    def process(self, pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Take a key and its number of rows."""
        self._keys += 1
        self._rows += pair[1]
        yield pair

    def finish_bundle(self) -> None:
        """Report."""
        Metrics.counter(NAMESPACE, f"{self._name}_rows").inc(self._rows)
        Metrics.counter(NAMESPACE, f"{self._name}_keys").inc(self._keys)


class CountUntilSilence(beam.DoFn):  # type: ignore[misc]
    """Counts a key's rows; emits the count when the key has been silent for its life."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, seconds: float) -> None:
        self._silence = Duration(seconds)

    def process(
        self,
        pair: tuple[int, int],
        at: Any = beam.DoFn.TimestampParam,
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> None:
        """Count one row and put the end off."""
        count.write((count.read() or 0) + pair[1])
        end.set(at + self._silence)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def emit(
        self,
        key: int = beam.DoFn.KeyParam,
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        """Let the key go."""
        yield key, count.read()
        count.clear()


def build(p: beam.Pipeline, spark: Any, life: Life) -> None:
    """Build the pipeline over Spark's clock-driven source of numbers."""
    source = spark.readStream.format("rate").option("rowsPerSecond", life.rows_per_second)
    frame = source.option("numPartitions", 2).load()
    pairs = (
        p
        | ReadFromSpark(frame, timestamp="timestamp", watermark=OUT_OF_ORDER_SECONDS)
        | beam.Map(lambda row: (key_of(row.value), 1)).with_output_types(tuple[int, int])
        | "Came" >> beam.ParDo(Tally("came")).with_output_types(tuple[int, int])
    )
    _ = (
        pairs
        | beam.WindowInto(Sessions(life.seconds))
        | beam.CombinePerKey(sum)
        | "Sessions" >> beam.ParDo(Tally("sessions"))
    )
    _ = (
        pairs
        | beam.ParDo(CountUntilSilence(life.seconds)).with_output_types(tuple[int, int])
        | "Timers" >> beam.ParDo(Tally("timers"))
    )


def complaints(answer: dict[str, int], late: int) -> list[str]:
    """Say what is wrong with the counters of a drained run."""
    came = answer.get("came_rows", 0)
    found = [] if came else ["no rows came"]
    for way in ("sessions", "timers"):
        rows = answer.get(f"{way}_rows", 0)
        if rows != came:
            found.append(f"{way} gave back {rows} rows of {came}")
    if late:
        found.append(f"{late} elements were dropped as late")
    return found
