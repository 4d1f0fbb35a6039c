"""Runs NEXMark's pipelines in this process, and makes events by hand.

What is bounded runs on headrace without Spark, what a script streams on Beam's local runner.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workload import Row, Workload
from headrace.lab.workloads.nexmark.generator import generator
from headrace.lab.workloads.nexmark.model import Auction, Bid, Person, Record
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.testing import LocalRunner

#: A moment at which windows of 10 s begin.
T0 = 1_436_918_400_000
DEFAULTS = NexmarkSettings()

SLOW = "HEADRACE_SLOW" in os.environ
_runs = itertools.count()
_collected: dict[int, list[Any]] = {}


def person(id: int, at: int = 0, *, name: str = "Ann Lee", state: str = "OR") -> Person:
    return Person(id, name, "a@b.com", "1 2 3 4", "Bend", state, T0 + at, "pp")


def auction(
    id: int,
    at: int = 0,
    *,
    expires: int = 1_000,
    reserve: int = 100,
    seller: int = 1,
    category: int = 10,
) -> Auction:
    return Auction(id, "it", "em", 1, reserve, T0 + at, T0 + expires, seller, category, "aa")


def bid(
    auction: int, price: int = 100, at: int = 0, *, bidder: int = 7, extra: str = "x"
) -> Bid:
    return Bid(auction, bidder, price, T0 + at, extra)


def generated(settings: NexmarkSettings) -> list[Record]:
    made = generator(settings)
    return made.elements(0, made.events)[0]


def stamped(event: Record) -> TimestampedValue:
    return TimestampedValue(event, Timestamp(micros=event.date_time * 1_000))


class _Keep(beam.DoFn):  # type: ignore[misc]
    """Keeps rows with their times; refuses what is not plain."""

    def __init__(self, run: int) -> None:
        self._run = run

    def process(
        self, element: Any, time: Timestamp = beam.DoFn.TimestampParam
    ) -> None:
        assert type(element) is tuple, element
        assert {*map(type, element)} <= {int, float, str}, element
        _collected[self._run].append((element, time.micros))


def _keep(events: Any, workload: Workload, settings: NexmarkSettings) -> int:
    run = next(_runs)
    _collected[run] = []
    rows = events | workload.name >> workload.build(settings)
    rows | f"Keep {workload.name}" >> beam.ParDo(_Keep(run))
    return run


def answers(
    workloads: Iterable[Workload],
    events: Iterable[Any],
    settings: NexmarkSettings = DEFAULTS,
) -> dict[str, list[tuple[Row, int]]]:
    """Answer several questions about a bounded input at once; rows with times in microseconds.

    HEADRACE_SLOW=1 lets Beam's local runner answer too, and compares.
    """
    events, workloads = [*events], [*workloads]
    found = _answers(LocalRunner(), workloads, events, settings)
    # Beam's runner mixes up the timers of two steps that call them by the same name.
    for workload in workloads if SLOW else ():
        theirs = _answers(FnApiRunner(), [workload], events, settings)[workload.name]
        ours = [row for row, _ in found[workload.name]]
        assert workload.rule(ours) == workload.rule([row for row, _ in theirs]), workload.name
    return found


def _answers(
    runner: Any, workloads: list[Workload], events: list[Any], settings: NexmarkSettings
) -> dict[str, list[tuple[Row, int]]]:
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([]))
    source = pipeline | beam.Create(events) | "Stamp" >> beam.Map(stamped)
    runs = {workload.name: _keep(source, workload, settings) for workload in workloads}
    pipeline.run().wait_until_finish()
    return {name: _collected.pop(run) for name, run in runs.items()}


def batch(
    workload: Workload, events: Iterable[Any], settings: NexmarkSettings = DEFAULTS
) -> list[Row]:
    """Answer a bounded input; rows in order."""
    return sorted(row for row, _ in answers([workload], events, settings)[workload.name])


class Pass(NamedTuple):
    """A step of a script: so many seconds of processing time go by."""

    seconds: int


def streaming(
    workload: Workload,
    script: Iterable[Any],
    settings: NexmarkSettings = DEFAULTS,
) -> list[tuple[Row, int]]:
    """Answer a stream that a script describes: records arrive, numbers are watermarks after T0.

    Rows come in the order in which they leave, with their times in microseconds.
    """
    stream = TestStream()
    for step in script:
        if isinstance(step, int):
            stream = stream.advance_watermark_to(Timestamp(micros=(T0 + step) * 1_000))
        elif isinstance(step, Pass):
            stream = stream.advance_processing_time(step.seconds)
        else:
            stream = stream.add_elements([stamped(step)])
    # The runner that FnApiRunner gives way to where a TestStream is read.
    options = PipelineOptions(["--streaming"])
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=options)
    events = pipeline | stream.advance_watermark_to_infinity()
    run = _keep(events, workload, settings)
    pipeline.run().wait_until_finish()
    return _collected.pop(run)


def rows(stamped_rows: Iterable[tuple[Row, int]]) -> list[Row]:
    """Rows without their times, in order."""
    return sorted(row for row, _ in stamped_rows)
