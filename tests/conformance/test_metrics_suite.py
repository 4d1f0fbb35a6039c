"""Beam's metrics suite, inherited from the wheel, with 1 and 2 shards."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from tests.places import Place, chosen

pytestmark = [pytest.mark.timeout(60, func_only=True)]


class _Runs:
    shards = 1
    place = Place.PROCESS

    def create_pipeline(self) -> beam.Pipeline:
        options = PipelineOptions([f"--shards={self.shards}", "--progress=off"])
        return beam.Pipeline(runner=self.place.runner(), options=options)


class TestOneShard(_Runs, fn_runner_test.FnApiRunnerMetricsTest):  # type: ignore[misc]
    shards = 1


class TestTwoShards(_Runs, fn_runner_test.FnApiRunnerMetricsTest):  # type: ignore[misc]
    shards = 2


@pytest.mark.spark
class TestOnSpark(
    _Runs,
    chosen(  # type: ignore[misc]
        fn_runner_test.FnApiRunnerMetricsTest, "test_element_count_metrics",
        "test_progress_metrics",
    )
):
    """Some of them on Spark too."""

    shards = 2
    place = Place.SPARK
