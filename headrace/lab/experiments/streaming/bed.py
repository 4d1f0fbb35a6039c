"""What all streaming cases stand on: one session, folders of their own, runs with the same flags.

Starts pipelines and queries and waits for them; judges nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.lab.experiments.micro.pipelines import NAMESPACE

#: A run that takes longer than this has come to a standstill.
PATIENCE_SECONDS = 900.0
_LOOK_SECONDS = 0.05


class Standstill(Exception):
    """Something was waited for and never came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """Where cases run."""

    spark: Any
    cores: int
    say: Callable[[str], None]

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Give a folder that ends with the block."""
        with tempfile.TemporaryDirectory(
            prefix="headrace-bench-", ignore_cleanup_errors=True
        ) as name:
            yield Path(name)

    def pipeline(self, folder: Path, *flags: str) -> beam.Pipeline:
        """Give an empty pipeline whose checkpoint and local state lie in the folder."""
        return beam.Pipeline(
            runner=headrace.SparkRunner(self.spark),
            options=PipelineOptions([
                "--progress=off", f"--shards={self.cores}", f"--checkpoint={folder}/checkpoint",
                f"--state_dir={folder}/local", *flags,
            ]),
        )  # fmt: skip


def answer_of(result: Any) -> dict[str, int]:
    """Read the tally's counters."""
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {counter.key.metric.name: counter.result for counter in found}


def wait_for(ready: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            msg = f"waited {seconds:.0f} s for {what}"
            raise Standstill(msg)
        time.sleep(_LOOK_SECONDS)


def load() -> float:
    """Give the machine's load over the last minute; 0 where it is not told."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
