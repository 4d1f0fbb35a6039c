"""Beam's own runner suite on a Spark Connect server; some of it in every run of the tests."""

from __future__ import annotations

import os
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

import headrace
from tests.places import chosen

#: What can differ by the way there: failures, metrics, side inputs, state, large elements.
CHOSEN = (
    "test_assert_that", "test_error_message_includes_stage", "test_gbk_side_input",
    "test_large_elements", "test_metrics", "test_pardo_timers", "test_reshuffle",
)
SUITE = fn_runner_test.FnApiRunnerTest
if "HEADRACE_SLOW" not in os.environ:
    SUITE = chosen(SUITE, *CHOSEN)


@pytest.mark.spark
class TestOnConnect(SUITE):  # type: ignore[misc, valid-type]
    @pytest.fixture(autouse=True)
    def _on_the_server(self, remote: Any) -> None:
        self.remote = remote

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = PipelineOptions(["--shards=2", "--progress=off"])
        runner = headrace.SparkRunner(self.remote, drain=is_drain)
        return beam.Pipeline(runner=runner, options=options)


def load_tests(*_: Any) -> None:
    """Pytest collects the class above; unittest must not collect Beam's again."""
