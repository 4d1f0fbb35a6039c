"""Beam's own runner suite, inherited from the wheel, with 1, 2 and 4 shards."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from tests.places import Place, chosen, without

#: These wait for 14 seconds of real time; with two shards, and as streams, they run always.
_WAITING = (
    "test_pardo_et_timer_with_no_firing", "test_pardo_et_timer_with_no_reset",
    "test_pardo_et_timer_with_no_reset_and_no_clear",
)


class _Runs:
    shards = 1
    place = Place.PROCESS

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = PipelineOptions([f"--shards={self.shards}", "--progress=off"])
        return beam.Pipeline(runner=self.place.runner(drain=is_drain), options=options)


class TestOneShard(_Runs, without(fn_runner_test.FnApiRunnerTest, *_WAITING)):  # type: ignore[misc]
    shards = 1


class TestTwoShards(_Runs, fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
    shards = 2


class TestFourShards(_Runs, without(fn_runner_test.FnApiRunnerTest, *_WAITING)):  # type: ignore[misc]
    shards = 4


@pytest.mark.spark
class TestOnSpark(
    _Runs,
    chosen(  # type: ignore[misc]
        fn_runner_test.FnApiRunnerTest,
        "test_assert_that", "test_combine_per_key", "test_error_message_includes_stage",
        "test_flattened_side_input", "test_gbk_side_input", "test_large_elements",
        "test_metrics", "test_multimap_side_input", "test_pardo_state_only", "test_pardo_timers",
        "test_pardo_unfusable_side_inputs", "test_register_finalizations", "test_reshuffle",
        "test_sdf_with_dofn_as_restriction_provider", "test_windowing",
    )
):
    """What can differ by the way between processes: rows, side inputs, failures, metrics."""

    shards = 2
    place = Place.SPARK


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
