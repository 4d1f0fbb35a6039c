"""Runs the two phases of a soak, samples them, and judges.

Phase 1 is long, with keys of a short life: nothing may grow. Phase 2 has keys that live ten times
as long at the same rate: ten times as many are alive, and an epoch may not take much longer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.lab.ending import Ending, of_bars
from headrace.lab.experiments.soak.fit import WARM_UP_SHARE, Trend, settled, trend
from headrace.lab.experiments.soak.pipeline import NAMESPACE, Life, build, complaints
from headrace.lab.experiments.soak.plot import Chart, Curve
from headrace.lab.experiments.soak.samples import Sample, look

#: How many times longer keys live in phase 2, and how much longer an epoch may take there.
MORE_KEYS = 10
EPOCH_BAR = 1.3
_LOOK_SECONDS = 0.05
_MEGA = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One of the two phases."""

    name: str
    life: Life
    samples: tuple[Sample, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """What a soak showed."""

    trends: tuple[Trend, ...]
    state_ratio: float  # rows of state in phase 2 over phase 1
    epoch_ratio: float
    wrong: tuple[str, ...]

    @property
    def flat(self) -> bool:
        """Whether nothing grew."""
        return all(found.flat for found in self.trends)

    @property
    def ending(self) -> Ending:
        """How it ended: flat and fast enough, or not; rows that were lost weigh more."""
        return of_bars((self.flat, self.epoch_ratio <= EPOCH_BAR), wrong=bool(self.wrong))


def plan(minutes: float, rows_per_second: int) -> tuple[tuple[float, Life], tuple[float, Life]]:
    """Deal the time out: for each phase its seconds and its life.

    Phase 2 needs ten lives before it is full, and is looked at for ten more.
    """
    total = minutes * 60
    short = max(0.5, total / 120)
    second = 2 * MORE_KEYS * short
    first = max(total - second, second)
    return (
        (first, Life(rows_per_second=rows_per_second, seconds=short)),
        (second, Life(rows_per_second=rows_per_second, seconds=short * MORE_KEYS)),
    )


def run_phase(
    spark: Any,
    name: str,
    life: Life,
    seconds: float,
    folder: Path,
    *,
    trigger_seconds: float,
    cores: int,
    say: Callable[[str], None],
) -> Phase:
    """Run the pipeline for a while, with a look after each epoch; drain it at the end."""
    pipeline = beam.Pipeline(
        runner=headrace.SparkRunner(spark),
        options=PipelineOptions([
            "--progress=off", f"--shards={cores}", f"--checkpoint={folder}/checkpoint",
            f"--state_dir={folder}/local", f"--trigger_interval={trigger_seconds}",
        ]),
    )  # fmt: skip
    build(pipeline, spark, life)
    samples: list[Sample] = []
    result = pipeline.run()
    start: float | None = None  # counted from the first epoch with rows on: workers are there then
    last, told, passed = 0, 0.0, 0.0
    while passed < seconds:
        if result.state != "RUNNING":
            result.wait_until_finish()  # raises what went wrong
            break
        status = result.stream_status
        if status.epoch > last:
            last = status.epoch
            start = time.monotonic() if start is None else start
            passed = time.monotonic() - start
            samples.append(look(passed, status, folder))
            if passed - told >= 30:
                told = passed
                say(f"{name}: {passed:.0f} s, epoch {last}, {status.state_rows} rows of state")
        time.sleep(_LOOK_SECONDS)
    result.drain()
    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    answer = {counter.key.metric.name: counter.result for counter in counters}
    wrong = complaints(answer, result.stream_status.elements_late)
    say(f"{name}: {len(samples)} epochs, {answer.get('came_rows', 0)} rows")
    return Phase(
        name=name, life=life, samples=tuple(samples),
        wrong=tuple(f"{name}: {complaint}" for complaint in wrong),
    )


def trends(samples: Sequence[Sample]) -> tuple[Trend, ...]:
    """Fit every quantity that must not grow."""
    times = [s.seconds for s in samples]

    def fitted(name: str, unit: str, values: list[float], share: float, least: float) -> Trend:
        return trend(name, unit, times, values, share=share, least=least)

    return (
        fitted("Python workers", "MB", [s.worker_bytes / _MEGA for s in samples], 0.1, 20),
        fitted("local state", "MB", [s.local_bytes / _MEGA for s in samples], 0.1, 2),
        fitted("checkpoint", "MB", [s.checkpoint_bytes / _MEGA for s in samples], 0.2, 2),
        fitted("epoch time", "s", [s.epoch_seconds for s in samples], 0.2, 0.05),
        fitted("rows of state", "rows", [float(s.state_rows) for s in samples], 0.1, 100),
    )


def judge(first: Phase, second: Phase) -> Soaked:
    """Say how the soak went."""
    return Soaked(
        trends=trends(first.samples),
        state_ratio=_settled_ratio(first, second, lambda s: float(s.state_rows)),
        epoch_ratio=_settled_ratio(first, second, lambda s: s.epoch_seconds),
        wrong=(*first.wrong, *second.wrong),
    )


def _settled_ratio(first: Phase, second: Phase, value: Callable[[Sample], float]) -> float:
    def middle(phase: Phase, share: float) -> float:
        start = settled([s.seconds for s in phase.samples], share)
        return statistics.median(map(value, phase.samples[start:]))

    # The second phase takes half its time to fill.
    before = middle(first, WARM_UP_SHARE)
    return middle(second, 0.55) / before if before else float("inf")


def charts(phases: Sequence[Phase]) -> list[Chart]:
    """Give what is worth drawing, one line for each phase."""

    def chart(title: str, unit: str, value: Callable[[Sample], float]) -> Chart:
        return Chart(
            title=title, unit=unit,
            series=[
                Curve(
                    name=phase.name, xs=[s.seconds for s in phase.samples],
                    ys=[value(s) for s in phase.samples],
                )
                for phase in phases
            ],
        )

    return [
        chart("Python workers, resident", "MB", lambda s: s.worker_bytes / _MEGA),
        chart("JVM, resident", "MB", lambda s: s.jvm_bytes / _MEGA),
        chart("Local state, allocated", "MB", lambda s: s.local_bytes / _MEGA),
        chart("Checkpoint, allocated", "MB", lambda s: s.checkpoint_bytes / _MEGA),
        chart("Spark's log of batches, allocated", "MB", lambda s: s.spark_log_bytes / _MEGA),
        chart("Epoch time", "ms", lambda s: s.epoch_seconds * 1e3),
        chart("Rows of state", "", lambda s: float(s.state_rows)),
    ]
