"""How long a tiny epoch of our own loop takes: as one task, in stages, and planned anew.

The driver's loop brings such epochs by itself (timers, residuals, steps of a test stream): nothing
of Structured Streaming is in them. One exchange, a windowed count, a checkpoint on disk; the time
is that from the epoch's begin to the end of its commit. An empty epoch has no elements: time alone
goes on, while what came before waits. Spark's own windowed count of as many rows, as the case
`epoch` has it, takes turns with them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.engine.epoch_run import EpochRunner
from headrace.engine.spark.classic_door import ClassicDoor
from headrace.lab.experiments.micro.pipelines import NAMESPACE
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load
from headrace.lab.experiments.streaming.epoch import COLD_EPOCHS, KEYS, ROWS, native_epochs
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line

BAR_MILLIS = 60.0
ONE_TASK = "own loop, one task"
EMPTY = "own loop, one task, no elements"
KEPT = "own loop, stages, a plan that is kept"
ANEW = "own loop, stages, planned anew"
NATIVE = "Spark alone, windowed count"


class Tally(beam.DoFn):  # type: ignore[misc]
    """Adds counts up."""

    def process(self, element: tuple[int, int]) -> Iterable[Any]:
        Metrics.counter(NAMESPACE, "counted").inc(element[1])
        return ()


def build(p: beam.Pipeline, epochs: int, *, empty: bool = False) -> None:
    """Count by key and window what a test stream brings, a few elements at a time.

    Args:
        p: the pipeline.
        epochs: how many steps the test stream has.
        empty: elements come in the first step alone; after it the watermark goes on, in a window.
    """
    stream = TestStream(coder=beam.coders.VarIntCoder())
    for epoch in range(epochs):
        if empty and epoch:
            stream.advance_watermark_to(Timestamp(micros=1_000 * epoch))
        else:
            stream.add_elements([TimestampedValue(n, float(epoch)) for n in range(ROWS)])
    counts = (
        p
        | stream.advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(lambda n: (n % KEYS, 1)).with_output_types(tuple[int, int])
        | beam.CombinePerKey(sum)
    )
    counts | beam.ParDo(Tally())


@contextmanager
def timed_epochs() -> Iterator[list[float]]:
    """Give the milliseconds of each epoch that is run while the block lasts."""
    found: list[float] = []
    run = EpochRunner.run

    def timed(runner: EpochRunner, *args: Any) -> None:
        began = time.perf_counter()
        run(runner, *args)
        found.append((time.perf_counter() - began) * 1e3)

    with patch.object(EpochRunner, "run", timed):
        yield found


def own_epochs(
    bed: Bed, epochs: int, *, kept: bool, small: bool = False, empty: bool = False,
    heard: Callable[[Any], None] | None = None,
) -> tuple[list[float], list[str]]:
    """Run epochs on our own loop; give their times, and what was wrong.

    Args:
        bed: where.
        epochs: how many.
        kept: whether their plan is kept.
        small: whether those that are small run as one task, as they do unless it is turned off.
        empty: whether nothing comes in, after the first.
        heard: is told how the epochs were laid out.
    """
    flag = f"--small_epochs={'auto' if small else 'off'}"
    anew = patch.object(ClassicDoor, "prepared", lambda *_: None)
    with bed.folder() as folder, timed_epochs() as found, nullcontext() if kept else anew:
        pipeline = bed.pipeline(folder, "--streaming", flag)
        build(pipeline, epochs, empty=empty)
        result = pipeline.run()
        result.wait_until_finish()
        if heard is not None:
            heard(result.stream_status.layouts)
        counted = answer_of(result).get("counted", 0)
    expected = ROWS if empty else epochs * ROWS
    return found, [] if counted == expected else [f"own loop: counted {counted} of {expected}"]


def native(bed: Bed, epochs: int) -> tuple[list[float], list[str]]:
    """Run Spark's windowed count."""
    found, wrong = native_epochs(bed, 1, epochs)
    return [float(report["durationMs"]["triggerExecution"]) for report in found], wrong


def measure(bed: Bed, *, epochs: int = 40, rounds: int = 3) -> CaseResult:
    """Run all of them in turns."""
    if epochs <= COLD_EPOCHS:
        msg = f"{epochs} epochs: must be more than {COLD_EPOCHS}"
        raise ValueError(msg)
    before = load()
    run: dict[str, Callable[[], tuple[list[float], list[str]]]] = {
        ONE_TASK: partial(own_epochs, bed, epochs, kept=True, small=True),
        EMPTY: partial(own_epochs, bed, epochs, kept=True, small=True, empty=True),
        KEPT: partial(own_epochs, bed, epochs, kept=True),
        ANEW: partial(own_epochs, bed, epochs, kept=False),
        NATIVE: partial(native, bed, epochs),
    }
    samples: dict[str, list[float]] = {name: [] for name in run}
    wrong: list[str] = []
    for number in range(rounds):
        for name, variant in run.items():
            found, complaints = variant()
            samples[name] += found[COLD_EPOCHS:epochs]
            wrong += complaints
            last = statistics.median(found[COLD_EPOCHS:epochs])
            bed.say(f"ownloop, round {number + 1}: {name}: {last:.0f} ms")
    lines = {
        name: Line(name=name, unit="ms per epoch", samples=tuple(found))
        for name, found in samples.items()
    }
    bars = (
        Bar(what=f"{what}, ms", value=lines[name].median, limit=BAR_MILLIS, at_most=True)
        for what, name in (("a tiny epoch with one exchange", ONE_TASK), ("an empty epoch", EMPTY))
    )
    return CaseResult(
        case="ownloop", what=f"an epoch of {ROWS} rows on our own loop, {bed.cores} cores",
        lines=tuple(lines.values()), bars=tuple(bars), wrong=tuple(wrong), load=(before, load()),
    )
