"""Beam's own runner suite once more, this time as streaming pipelines: epochs, stores, commits."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from tests.places import Place, chosen


class TestStreaming(fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    place = Place.PROCESS

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = PipelineOptions(["--streaming", "--shards=2", "--progress=off"])
        return beam.Pipeline(runner=self.place.runner(drain=is_drain), options=options)


@pytest.mark.spark
class TestOnSpark(
    chosen(  # type: ignore[misc]
        TestStreaming,
        "test_assert_that", "test_combine_per_key", "test_error_message_includes_stage",
        "test_gbk_side_input", "test_metrics", "test_pardo_state_only", "test_pardo_timers",
        "test_register_finalizations", "test_sdf_with_sdf_initiated_checkpointing",
        "test_windowing",
    )
):
    """What can differ by the way between processes."""

    place = Place.SPARK


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
