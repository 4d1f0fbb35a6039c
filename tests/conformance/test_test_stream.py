"""Beam's own tests of test streams, inherited from the wheel."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.testing import test_stream_test

from tests.places import Place, chosen, headrace_is_the_runner


class TestTestStream(test_stream_test.TestStreamTest):  # type: ignore[misc]
    """Those that any runner can run."""

    place = Place.PROCESS

    def setUp(self) -> None:
        headrace_is_the_runner(self, self.place)

    @pytest.mark.never(
        "its events come from a service that lives in the process of Beam's own runner"
    )
    def test_basic_execution_with_service(self) -> None:
        """Inherited as a gap that has a name."""


@pytest.mark.never(
    "ReverseTestStream asks the runner for its clock by a transform without URN that only Beam's "
    "own direct runner answers"
)
class TestReverseTestStream(test_stream_test.ReverseTestStreamTest):  # type: ignore[misc]
    def setUp(self) -> None:
        headrace_is_the_runner(self, Place.PROCESS)


@pytest.mark.spark
class TestOnSpark(
    chosen(  # type: ignore[misc]
        TestTestStream, "test_basic_execution", "test_gbk_execution_after_watermark_trigger"
    )
):
    """Some of them on Spark too."""

    place = Place.SPARK


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
