"""The streaming pipelines that are measured, from rows of `data` to a tally.

Knows Beam and the rows; runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows

from headrace.io import ReadFromSpark
from headrace.lab.experiments.micro.pipelines import NAMESPACE
from headrace.lab.experiments.streaming.data import (
    CLOSING_KEY,
    SIDE_KEYS,
    START_SECONDS,
    WINDOW_SECONDS,
)


class Tally(beam.DoFn):  # type: ignore[misc]
    """Keeps numbers while a bundle runs and adds them to counters at its end."""

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}

    def start_bundle(self) -> None:
        self._kept = {}

    def add(self, **numbers: int) -> None:
        kept = self._kept
        for name, number in numbers.items():
            kept[name] = kept.get(name, 0) + number

    def finish_bundle(self) -> None:
        for name, number in self._kept.items():
            Metrics.counter(NAMESPACE, name).inc(number)


class TallyCounts(Tally):
    """Adds up the counts of keys and windows; `mixed` depends on which key and window has which."""

    def __init__(self, window_seconds: int) -> None:
        super().__init__()
        self._window_seconds = window_seconds

    def process(
        self, pair: tuple[int, int], window: Any = beam.DoFn.WindowParam
    ) -> None:
        key, count = pair
        if key == CLOSING_KEY:
            return
        bucket = (window.start.micros // 1_000_000 - START_SECONDS) // self._window_seconds
        self.add(groups=1, rows=count, mixed=count * (key + 1) * (bucket + 1))


class TallyNumbers(Tally):
    """Counts and adds numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = self._mixed = 0

    def start_bundle(self) -> None:
        super().start_bundle()
        self._rows = self._mixed = 0

    def process(self, number: int) -> None:
        self._rows += 1
        self._mixed += number

    def finish_bundle(self) -> None:
        self.add(rows=self._rows, mixed=self._mixed)
        super().finish_bundle()


class CountUntilEnd(beam.DoFn):  # type: ignore[misc]
    """Counts a key's elements in state; a timer at the window's end emits the count and clears."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        _pair: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> None:
        before = count.read()
        if before is None:
            end.set(window.end)
            before = 0
        count.write(before + 1)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def emit(
        self,
        key: int = beam.DoFn.KeyParam,
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[int, int]]:
        yield key, count.read()
        count.clear()


class Remember(beam.DoFn):  # type: ignore[misc]
    """Keeps a count for each key, for ever."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self,
        _pair: tuple[int, int],
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
    ) -> None:
        count.write((count.read() or 0) + 1)
        Metrics.counter(NAMESPACE, "rows").inc()


class Join(beam.DoFn):  # type: ignore[misc]
    """Multiplies a value with the rate that the side input has for its key and window."""

    def process(self, pair: tuple[int, int], rates: Mapping[int, int]) -> Iterable[int]:
        key, value = pair
        if key != CLOSING_KEY:
            yield value * rates[key % SIDE_KEYS]


def _pairs(p: beam.Pipeline, name: str, frame: Any) -> beam.PCollection:
    rows = p | f"Read{name}" >> ReadFromSpark(frame, ["key", "value"], timestamp="at")
    return rows | f"Pair{name}" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(
        tuple[int, int]
    )


def _windows(name: str = "Windows", seconds: int = WINDOW_SECONDS) -> beam.PTransform:
    return name >> beam.WindowInto(FixedWindows(seconds, START_SECONDS % seconds))


def windowed_count(p: beam.Pipeline, frame: Any) -> None:
    """Count by key and window with a combiner."""
    _ = (
        _pairs(p, "", frame)
        | beam.Map(lambda pair: (pair[0], 1)).with_output_types(tuple[int, int])
        | _windows()
        | beam.CombinePerKey(sum)
        | beam.ParDo(TallyCounts(WINDOW_SECONDS))
    )


def state_and_timers(
    p: beam.Pipeline, frame: Any, window_seconds: int = WINDOW_SECONDS
) -> None:
    """Count by key and window with state and a timer."""
    _ = (
        _pairs(p, "", frame)
        | _windows(seconds=window_seconds)
        | beam.ParDo(CountUntilEnd()).with_output_types(tuple[int, int])
        | beam.ParDo(TallyCounts(window_seconds))
    )


def side_join(p: beam.Pipeline, frame: Any, sides: Any) -> None:
    """Join with a side input that streams too, window by window."""
    rates = _pairs(p, "Side", sides) | _windows("SideWindows")
    _ = (
        _pairs(p, "", frame)
        | _windows()
        | beam.ParDo(Join(), beam.pvalue.AsDict(rates)).with_output_types(int)
        | beam.ParDo(TallyNumbers())
    )


def remember(p: beam.Pipeline, frame: Any) -> None:
    """Keep state for every key that ever came."""
    _ = _pairs(p, "", frame) | beam.ParDo(Remember())
