"""Makes headrace the runner of tests that build their own `TestPipeline`."""

from __future__ import annotations

from typing import Any
from unittest import mock

from apache_beam.testing import test_pipeline

from headrace.runner import HeadraceOptions, SparkRunner
from tests.spark_session import shared_session


def headrace_is_the_runner(test: Any, *, shards: int = 2) -> None:
    """From here to the end of the test, every TestPipeline runs on headrace."""
    original = test_pipeline.TestPipeline.__init__

    def on_headrace(self: Any, runner: Any = None, *args: Any, **more: Any) -> None:
        del runner
        original(self, SparkRunner(spark=shared_session()), *args, **more)
        ours = self.get_pipeline_options().view_as(HeadraceOptions)
        ours.shards, ours.progress = shards, "off"

    patch = mock.patch.object(test_pipeline.TestPipeline, "__init__", on_headrace)
    patch.start()
    test.addCleanup(patch.stop)
