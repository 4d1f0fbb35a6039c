"""Beam's 18 trigger transcripts, from the wheel, through epochs on Spark."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.transforms import trigger_test

from tests.conformance.on_spark import headrace_is_the_runner

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


class TestTranscripts(trigger_test.TestStreamTranscriptTest):  # type: ignore[misc]
    """The strict form: what a step causes is out before the next step."""

    def setUp(self) -> None:
        headrace_is_the_runner(self)

    @pytest.mark.never(
        "its timestamp combiner has no name in Beam's proto, so that no pipeline with it can be "
        "built; tests/worker/test_triggers.py runs it below the proto"
    )
    def test_timestamp_combiner_custom_timestamping_earliest_1(self) -> None:
        """Inherited as a gap that has a name."""


def load_tests(*_: Any) -> None:
    """Pytest collects the class above; unittest must not collect Beam's again."""
