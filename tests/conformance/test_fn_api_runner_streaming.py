"""Beam's own runner suite once more, this time as streaming pipelines: epochs, stores, commits."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from headrace.runner import SparkRunner
from tests.spark_session import shared_session

pytestmark = pytest.mark.spark


class TestStreaming(fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = PipelineOptions(["--streaming", "--shards=2", "--progress=off"])
        return beam.Pipeline(
            runner=SparkRunner(spark=shared_session(), drain=is_drain), options=options
        )


def load_tests(*_: Any) -> None:
    """Pytest collects the class above; unittest must not collect Beam's again."""
