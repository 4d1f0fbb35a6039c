"""Beam's own tests of test streams on a Spark Connect server; some of them in every run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.testing import test_stream_test

import headrace
from tests.places import chosen, headrace_is_the_runner


@pytest.mark.spark
@pytest.mark.timeout(600)
class TestOnConnect(
    chosen(  # type: ignore[misc]
        test_stream_test.TestStreamTest,
        "test_basic_execution", "test_gbk_execution_after_watermark_trigger",
        "test_basic_execution_sideinputs",
    )
):
    @pytest.fixture(autouse=True)
    def _on_the_server(self, remote: Any) -> None:
        place: Any = SimpleNamespace(runner=lambda: headrace.SparkRunner(remote))
        headrace_is_the_runner(self, place)

    @pytest.mark.never(
        "its events come from a service that lives in the process of Beam's own runner"
    )
    def test_basic_execution_with_service(self) -> None:
        """Inherited as a gap that has a name."""


def load_tests(*_: Any) -> None:
    """Pytest collects the class above; unittest must not collect Beam's again."""
