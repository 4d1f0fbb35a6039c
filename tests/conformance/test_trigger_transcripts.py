"""Beam's 18 trigger transcripts, from the wheel, through epochs."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.transforms import trigger_test

from tests.places import Place, chosen, headrace_is_the_runner

pytestmark = [pytest.mark.timeout(240)]


class TestTranscripts(trigger_test.TestStreamTranscriptTest):  # type: ignore[misc]
    """The strict form: what a step causes is out before the next step."""

    place = Place.PROCESS

    def setUp(self) -> None:
        headrace_is_the_runner(self, self.place)

    @pytest.mark.never(
        "its timestamp combiner has no name in Beam's proto, so that no pipeline with it can be "
        "built; tests/worker/test_triggers.py runs it below the proto"
    )
    def test_timestamp_combiner_custom_timestamping_earliest_1(self) -> None:
        """Inherited as a gap that has a name."""


@pytest.mark.spark
class TestOnSpark(chosen(TestTranscripts, "test_early_late_sessions")):  # type: ignore[misc]
    """One of them on Spark too: late data, merging windows, accumulation."""

    place = Place.SPARK


def load_tests(*_: Any) -> None:
    """Pytest collects the class above; unittest must not collect Beam's again."""
