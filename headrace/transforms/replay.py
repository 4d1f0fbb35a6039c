"""Plays a short script to an operator on Beam's local runners and gives what comes out.

For examples and tests. A script is a row of arrivals, made by `at` (or by `left` and `right`, for
operators with two inputs), and of moments `until` which the watermark moves. A script without such
moments is played in batch, any other as a stream, step by step in the order it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue


class Side(Enum):
    """The input of an operator at which an element arrives."""

    ONLY = "only"  # the operator has one input
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Arrival:
    """An element that arrives."""

    time: float  # event time, seconds
    value: Any
    side: Side


@dataclass(frozen=True, slots=True)
class Until:
    """The watermark moves; what is older and comes after is late."""

    time: float


def at(time: float, value: Any) -> Arrival:
    """Let an element of this event time arrive."""
    return Arrival(time, value, Side.ONLY)


def left(time: float, value: Any) -> Arrival:
    """Let an element arrive on the left."""
    return Arrival(time, value, Side.LEFT)


def right(time: float, value: Any) -> Arrival:
    """Let an element arrive on the right."""
    return Arrival(time, value, Side.RIGHT)


def until(time: float) -> Until:
    """Move the watermark."""
    return Until(time)


#: Results by the number of the run. The runners used here work inside this process, but send the
#: pipeline through a pickler, which would give a list of our own to a copy of the collecting step.
_RESULTS: dict[int, list[Any]] = {}
_RUNS = count()


def replay(transform: Any, *script: Arrival | Until, output: str = "") -> list[Any]:
    """Give the results of a script in sorted order; `output` names one of several collections.

    >>> replay(beam.Map(str.upper), at(1, "b"), at(2, "a"))
    ['A', 'B']
    """
    results = play(transform, *script, output=output)
    try:
        return sorted(results)
    except TypeError:
        return sorted(results, key=repr)


def play(transform: Any, *script: Arrival | Until, output: str = "") -> list[Any]:
    """Give the results of a script in the order they came out."""
    return [result for result, _ in play_timed(transform, *script, output=output)]


def play_timed(
    transform: Any, *script: Arrival | Until, output: str = ""
) -> list[tuple[Any, float]]:
    """Give the results of a script with their event times, in the order they came out."""
    run = next(_RUNS)
    found = _RESULTS.setdefault(run, [])
    streaming = any(isinstance(step, Until) for step in script)
    try:
        with beam.Pipeline(
            # The only one of Beam's local runners in Python that knows TestStream.
            runner="BundleBasedDirectRunner" if streaming else "FnApiRunner",
            options=PipelineOptions(["--streaming"] if streaming else []),
        ) as p:
            elements = p | "Script" >> (_stream(script) if streaming else _batch(script))
            made = _inputs(elements, script) | "Replay" >> transform
            if isinstance(made, beam.pvalue.DoOutputsTuple):
                made = made[output] if output else next(iter(made))
            _ = made | "Collect" >> beam.ParDo(_Note(run))
    finally:
        del _RESULTS[run]
    return found


class _Note(beam.DoFn):  # type: ignore[misc]
    """Adds results to those of its run."""

    def __init__(self, run: int) -> None:
        self._run = run

    def process(self, element: Any, time: Any = beam.DoFn.TimestampParam) -> None:
        _RESULTS[self._run].append((element, time.micros / 1e6))


def _batch(script: Sequence[Arrival | Until]) -> Any:
    arrivals = [step for step in script if isinstance(step, Arrival)]
    return _Batch(arrivals)


class _Batch(beam.PTransform):  # type: ignore[misc]
    """The arrivals of a script as a bounded collection of (side, element)."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        super().__init__()
        self._rows = [(a.time, (a.side.value, a.value)) for a in arrivals]

    def expand(self, begin: Any) -> Any:
        def stamp(row: tuple[float, Any]) -> Any:
            return TimestampedValue(row[1], row[0])

        return begin | beam.Create(self._rows) | "Times" >> beam.Map(stamp)


def _stream(script: Sequence[Arrival | Until]) -> Any:
    from apache_beam.testing.test_stream import TestStream

    stream = TestStream()
    for step in script:
        if isinstance(step, Until):
            stream.advance_watermark_to(step.time)
        else:
            stream.add_elements([TimestampedValue((step.side.value, step.value), step.time)])
    return stream.advance_watermark_to_infinity()


def _inputs(elements: Any, script: Sequence[Arrival | Until]) -> Any:
    sides = {step.side for step in script if isinstance(step, Arrival)}
    if sides <= {Side.ONLY}:
        return elements | "Value" >> beam.Map(_value)
    return tuple(elements | side.value >> beam.FlatMap(_of_side, side.value) for side in _BOTH)


_BOTH = (Side.LEFT, Side.RIGHT)


def _value(element: tuple[str, Any]) -> Any:
    return element[1]


def _of_side(element: tuple[str, Any], side: str) -> list[Any]:
    return [element[1]] if element[0] == side else []
