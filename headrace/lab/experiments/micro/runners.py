"""The runners that are measured, behind one verb: run this case with so many elements.

Takes a case, gives what the run took and what its counters say. Does not judge the answer.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

import headrace
from headrace.lab.experiments.micro.cases import Answer, Case
from headrace.lab.experiments.micro.pipelines import NAMESPACE
from headrace.lab.meter import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took and gave."""

    seconds: float
    cpu_seconds: float | None  # None where it cannot be read
    peak_worker_bytes: int | None  # None: no worker processes, or it cannot be read
    answer: Answer


class Runner(Protocol):
    """Something that runs Beam pipelines."""

    @property
    def name(self) -> str:
        """The name in tables and files."""

    def run(self, case: Case, elements: int) -> Run:
        """Run a case to its end."""


class Headrace:
    """headrace on a local Spark with as many cores as asked for."""

    name = "headrace"

    def __init__(self, cores: int, session: Any | None = None) -> None:
        self._session = session
        self._flags = ["--progress=off", f"--shards={cores}"]
        if session is None:
            self._flags.append(f"--spark_master=local[{cores}]")

    def run(self, case: Case, elements: int) -> Run:
        """Run a case; processor time and memory are those of the whole process tree."""
        pipeline = _built(case, elements, headrace.SparkRunner(self._session), self._flags)
        gc.collect()
        with Meter() as meter:
            start = time.perf_counter()
            result = pipeline.run()
            result.wait_until_finish()
            seconds = time.perf_counter() - start
        return Run(
            seconds=seconds, cpu_seconds=meter.cpu_seconds,
            peak_worker_bytes=meter.peak_worker_bytes, answer=answer_of(result),
        )


class FnApi:
    """Beam's FnApiRunner as it comes: everything in this process."""

    name = "FnApiRunner"

    def run(self, case: Case, elements: int) -> Run:
        """Run a case; processor time is this process's, the idle JVM stays out of it."""
        pipeline = _built(case, elements, FnApiRunner(), [])
        gc.collect()
        cpu = time.process_time()
        start = time.perf_counter()
        result = pipeline.run()
        result.wait_until_finish()
        return Run(
            seconds=time.perf_counter() - start, cpu_seconds=time.process_time() - cpu,
            peak_worker_bytes=None, answer=answer_of(result),
        )


def _built(case: Case, elements: int, runner: Any, flags: list[str]) -> Any:
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(flags))
    case.build(pipeline, elements)
    return pipeline


def answer_of(result: Any) -> Answer:
    """Read the tally's counters."""
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {counter.key.metric.name: counter.result for counter in found}
