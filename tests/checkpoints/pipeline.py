"""A small pipeline that keeps state of every kind; stored checkpoints were made by it.

Its steps, coders and cells must stay as they are: a checkpoint fits the pipeline that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import core
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from tests.streaming.harness import jot

#: The epoch after which stored checkpoints were taken: elements and a watermark are in, more are
#: to come.
CUT_AFTER = 4

#: What comes out up to the cut and after it; written by hand. [-5, 5) is over at the cut.
BEFORE = [
    ("rest", "a", 0), ("rest", "a", 1), ("rest", "b", 0), ("rest", "b", 1),
    ("sliding", "a", 4), ("sliding", "b", 2),
]  # fmt: skip
AFTER = [
    ("clock", "a"), ("clock", "b"),
    ("fixed", "a", 4), ("fixed", "a", 10), ("fixed", "b", 6),
    ("rest", "a", 2), ("rest", "b", 2),
    ("session", "a", [1, 3]), ("session", "a", [10]), ("session", "b", [2, 4]),
    ("side", "a", 1, 10), ("side", "a", 3, 10), ("side", "a", 10, 10),
    ("side", "b", 2, 10), ("side", "b", 4, 10),
    ("sliding", "a", 4), ("sliding", "a", 10), ("sliding", "a", 10),
    ("sliding", "b", 4), ("sliding", "b", 6),
    ("state", "a", [1, 3, 10], 3), ("state", "b", [2, 4], 2),
]  # fmt: skip


def script() -> TestStream:
    """Two keys, over 12 seconds; the cut is after the second watermark."""
    return (
        TestStream()
        .add_elements([TimestampedValue(("a", 1), 1), TimestampedValue(("b", 2), 2)])
        .advance_watermark_to(3)
        .add_elements([TimestampedValue(("a", 3), 4), TimestampedValue(("a", 10), 12)])
        .advance_watermark_to(5)
        .add_elements([TimestampedValue(("b", 4), 6)])
        .advance_watermark_to_infinity()
    )


class Remember(beam.DoFn):  # type: ignore[misc]
    """Keeps values and their number, and gives them when its timers fire."""

    VALUES = BagStateSpec("values", VarIntCoder())
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)
    LATER = TimerSpec("later", TimeDomain.REAL_TIME)
    _VALUES, _COUNT = beam.DoFn.StateParam(VALUES), beam.DoFn.StateParam(COUNT)
    _END, _LATER = beam.DoFn.TimerParam(END), beam.DoFn.TimerParam(LATER)

    def process(
        self,
        pair: tuple[str, int],
        values: Any = _VALUES,
        count: Any = _COUNT,
        end: Any = _END,
        later: Any = _LATER,
    ) -> None:
        values.add(pair[1])
        count.write((count.read() or 0) + 1)
        end.set(Timestamp(20))
        later.set(Timestamp(1_000_000_000))

    @on_timer(END)  # type: ignore[untyped-decorator]
    def ended(
        self, key: Any = beam.DoFn.KeyParam, values: Any = _VALUES, count: Any = _COUNT
    ) -> Iterator[tuple[Any, ...]]:
        yield "state", key, sorted(values.read()), count.read()

    @on_timer(LATER)  # type: ignore[untyped-decorator]
    def waited(self, key: Any = beam.DoFn.KeyParam) -> Iterator[tuple[Any, ...]]:
        yield "clock", key


class Three(core.RestrictionProvider):  # type: ignore[misc]
    """Three positions for each element."""

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element: Any) -> Any:
        return OffsetRange(0, 3)

    def restriction_size(self, element: Any, restriction: Any) -> int:
        return int(restriction.size())


class TwoNowOneLater(beam.DoFn):  # type: ignore[misc]
    """Gives two positions, and asks to go on with the third after a thousand seconds."""

    _THREE = core.DoFn.RestrictionParam(Three())

    @core.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, key: str, tracker: Any = _THREE) -> Iterator[tuple[Any, ...]]:
        at = tracker.current_restriction().start
        for position in range(at, at + 2):
            if not tracker.try_claim(position):
                return
            yield "rest", key, position
        tracker.defer_remainder(Duration(1_000))


def first_of_key(pair: tuple[str, int]) -> Iterator[str]:
    if pair[1] in (1, 2):
        yield pair[0]


def build(pipeline: beam.Pipeline, out: Path) -> None:
    """Put the steps together; what comes out is written to a file, a line each."""
    came = pipeline | "Script" >> script()
    came = came | "Pairs" >> beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    fixed = came | "In fixed" >> beam.WindowInto(FixedWindows(10))
    side = fixed | "Values" >> beam.Values()
    parts = [
        fixed | "Sum fixed" >> beam.CombinePerKey(sum) | "Fixed" >> beam.Map(_tagged, "fixed"),
        came
        | "In sliding" >> beam.WindowInto(SlidingWindows(10, 5))
        | "Sum sliding" >> beam.CombinePerKey(sum)
        | "Sliding" >> beam.Map(_tagged, "sliding"),
        came
        | "In sessions" >> beam.WindowInto(Sessions(5))
        | "Group" >> beam.GroupByKey()
        | "Session" >> beam.MapTuple(lambda key, values: ("session", key, sorted(values))),
        came | "Remember" >> beam.ParDo(Remember()),
        came | "First" >> beam.FlatMap(first_of_key) | "Rest" >> beam.ParDo(TwoNowOneLater()),
        fixed | "Side" >> beam.Map(_with_side, beam.pvalue.AsList(side)),
    ]
    for number, part in enumerate(parts):
        part | f"Jot {number}" >> jot(out)


def _tagged(pair: tuple[str, int], tag: str) -> tuple[str, str, int]:
    return tag, *pair


def _with_side(pair: tuple[str, int], values: Iterable[int]) -> tuple[str, str, int, int]:
    return "side", *pair, sum(values)
