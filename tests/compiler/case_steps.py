"""What the pipelines of the text cases are made of; a case uses these names and those of Beam."""

# ruff: noqa: B008 (Beam is told of state, timers and restrictions by calls in default arguments)

# No `from __future__ import annotations`: Beam reads types of elements off these, and not as texts.
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.testing import LocalSession

Pair = tuple[str, int]
SCHEMA = "key string, number long"


def pair(_start: bytes) -> Pair:
    """Make the one element of a pipeline that begins with an impulse."""
    return "a", 1


def same_key(pair: Pair) -> Pair:
    return pair[0], pair[1] + 1


def other_key(pair: Pair) -> Pair:
    return pair[0] + "x", pair[1]


def first_of(row: Any) -> Pair:
    return row[0], 1


def key_of(pair: Pair) -> str:
    return pair[0]


def beside(element: Any, _side: Any) -> Any:
    return element


def read() -> ReadFromSpark:
    """Give a read of a DataFrame; it needs no Spark."""
    return ReadFromSpark(LocalSession().createDataFrame([("a", 1)], SCHEMA))


def write() -> WriteToSpark:
    """Give a write of pairs that is never carried out."""
    return WriteToSpark("/nowhere", schema=SCHEMA)


class Parity(beam.DoFn):  # type: ignore[misc]
    """Has two outputs; name them with `.with_outputs("odd", main="even")`."""

    def process(self, pair: Pair) -> Iterator[Any]:
        yield TaggedOutput("odd", pair) if pair[1] % 2 else pair


class Count(beam.DoFn):  # type: ignore[misc]
    """Has a state cell, and hands the key on."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(self, pair: Pair, seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[Pair]:
        count = (seen.read() or 0) + 1
        seen.write(count)
        yield pair[0], count


class Remind(beam.DoFn):  # type: ignore[misc]
    """Has a timer and no state cell."""

    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(self, pair: Pair, due: Any = beam.DoFn.TimerParam(DUE)) -> Iterator[Pair]:
        due.set(10)
        yield pair

    @on_timer(DUE)  # type: ignore[untyped-decorator]
    def ring(self) -> None:
        """Put nothing out."""


class Number(beam.DoFn):  # type: ignore[misc]
    """Numbers the elements: depends on all elements before, whatever their key."""

    def setup(self) -> None:
        self._count = 0

    def process(self, pair: Pair) -> Iterator[Pair]:
        self._count += 1
        yield pair[0], self._count


class _Range(RestrictionProvider):  # type: ignore[misc]
    def initial_restriction(self, element: Pair) -> OffsetRange:
        return OffsetRange(0, element[1])

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Pair, restriction: OffsetRange) -> int:
        return int(restriction.size())


class Split(beam.DoFn):  # type: ignore[misc]
    """Is splittable; takes a side input if there is one."""

    def process(
        self, pair: Pair, _side: Any = None, tracker: Any = beam.DoFn.RestrictionParam(_Range())
    ) -> Iterator[Pair]:
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield pair[0], at
            at += 1
