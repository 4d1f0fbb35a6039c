"""Beam's own runner suite, inherited from the wheel, on local Spark with 1, 2 and 4 shards."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from headrace.runner import SparkRunner
from tests.spark_session import shared_session

pytestmark = pytest.mark.spark


class _OnSpark:
    shards = 1

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = PipelineOptions([f"--shards={self.shards}", "--progress=off"])
        return beam.Pipeline(runner=SparkRunner(spark=shared_session(), drain=is_drain),
                             options=options)


class TestOneShard(_OnSpark, fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    shards = 1


class TestTwoShards(_OnSpark, fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    shards = 2


class TestFourShards(_OnSpark, fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    shards = 4


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
