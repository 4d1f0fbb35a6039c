"""Beam's metrics suite, inherited from the wheel, on local Spark with 1 and 2 shards."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from headrace.runner import SparkRunner
from tests.spark_session import shared_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]


class _OnSpark:
    shards = 1

    def create_pipeline(self) -> beam.Pipeline:
        options = PipelineOptions([f"--shards={self.shards}", "--progress=off"])
        return beam.Pipeline(runner=SparkRunner(spark=shared_session()), options=options)


class TestOneShard(_OnSpark, fn_runner_test.FnApiRunnerMetricsTest):  # type: ignore[misc]
    shards = 1


class TestTwoShards(_OnSpark, fn_runner_test.FnApiRunnerMetricsTest):  # type: ignore[misc]
    shards = 2
