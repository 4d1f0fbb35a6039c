"""Dense sliding windows, five minutes every second: slices of time beside whole windows.

The same pipeline over the same generated elements, streaming and checkpointed; without slices it
gets a share of the elements, and rates are compared. The answer is known by arithmetic.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import SlidingWindows

from headrace.lab.data.beam_source import Events
from headrace.lab.data.timeline import Timeline
from headrace.lab.experiments.micro.pipelines import NAMESPACE
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line, differences

SIZE_SECONDS, PERIOD_SECONDS, KEYS, RATE = 300, 1, 1_000, 10_000
#: Without slices an element costs this much more, or nearly.
WHOLE_SHARE = 0.1
BAR = 20.0
WARM_UP_ELEMENTS = 20_000
BASE_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Numbers:
    """Makes (key, 1), keys in turn, at an even pace of event time."""

    events: int

    @property
    def line(self) -> Timeline:
        return Timeline(base_ms=BASE_MS, rate=RATE)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        numbers = np.arange(start, start + count)
        times = (self.line.nanos(numbers) // 1_000).tolist()
        return [(key, 1) for key in (numbers % KEYS).tolist()], times

    def watermark(self, number: int) -> int:
        return self.line.watermark(number, self.events)

    def due(self, number: int) -> int:
        return self.line.due(number)


class Add(beam.DoFn):  # type: ignore[misc]
    """Counts results and what they come to, a bundle at a time."""

    def start_bundle(self) -> None:
        self._results = self._total = 0

    def process(self, pair: tuple[int, int]) -> None:
        self._results += 1
        self._total += pair[1]

    def finish_bundle(self) -> None:
        Metrics.counter(NAMESPACE, "results").inc(self._results)
        Metrics.counter(NAMESPACE, "total").inc(self._total)


def build(p: beam.Pipeline, elements: int) -> None:
    """Count by key in every window."""
    (
        p
        | Events(Numbers(elements), streaming=True, readers=4)  # type: ignore[arg-type]
        | beam.WindowInto(SlidingWindows(SIZE_SECONDS, PERIOD_SECONDS))
        | beam.CombinePerKey(sum)
        | beam.ParDo(Add())
    )


def expected(elements: int) -> dict[str, int]:
    """Every element is in every window that covers it; all keys are in every slice."""
    slices = -(-elements // (RATE * PERIOD_SECONDS))
    windows = slices + SIZE_SECONDS // PERIOD_SECONDS - 1
    return {
        "total": elements * SIZE_SECONDS // PERIOD_SECONDS,
        "results": windows * min(KEYS, elements),
    }


def run(bed: Bed, elements: int, *flags: str) -> tuple[float, int, list[str]]:
    """Run the pipeline; give its seconds, the most bytes of state seen, and what was wrong."""
    with bed.folder() as folder:
        pipeline = bed.pipeline(folder, "--streaming", *flags)
        build(pipeline, elements)
        start, most = time.perf_counter(), 0
        result = pipeline.run()
        while result.wait_until_finish(duration=100) == "RUNNING":
            most = max(most, result.stream_status.state_bytes)
        seconds = time.perf_counter() - start
        wrong = differences(" ".join(flags) or "slices", answer_of(result), expected(elements))
        return seconds, most, wrong


def measure(bed: Bed, *, elements: int, rounds: int) -> CaseResult:
    """Run both in turns."""
    before = load()
    cases = {
        "slices": partial(run, bed, elements),
        "whole windows": partial(run, bed, int(elements * WHOLE_SHARE), "--no_slicing"),
    }
    rates: dict[str, list[float]] = {name: [] for name in cases}
    states: dict[str, list[float]] = {name: [] for name in cases}
    wrong: list[str] = []
    run(bed, WARM_UP_ELEMENTS)
    for turn in range(rounds):
        for name, case in cases.items():
            seconds, most, found = case()
            size = elements if name == "slices" else int(elements * WHOLE_SHARE)
            rates[name].append(size / seconds)
            states[name].append(float(most))
            wrong += found
            bed.say(f"sliding, round {turn + 1}: {name}: {size} in {seconds:.1f} s")
    lines = tuple(
        Line(
            name=name, unit="elements/s", samples=tuple(rates[name]),
            details={"most bytes of state between epochs": max(states[name])},
        )
        for name in cases
    )
    ratio = lines[0].median / lines[1].median
    return CaseResult(
        case="sliding",
        what=f"{SIZE_SECONDS} s every {PERIOD_SECONDS} s, {KEYS} keys, {bed.cores} cores",
        lines=lines,
        bars=(Bar(what="slices over whole windows", value=ratio, limit=BAR, at_most=False),),
        wrong=tuple(wrong), load=(before, load()),
    )
