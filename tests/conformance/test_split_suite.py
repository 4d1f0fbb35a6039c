"""Beam's split suite, inherited from the wheel, on local Spark.

The suite splits bundles while they run: a split manager in the test's memory stops the DoFn at a
breakpoint in the same memory and asks the runner for a split. Our DoFns run in Spark's Python
workers, where neither exists, and a bounded input needs no such split: its restrictions are dealt
out to the shards before they are processed. What stays is that SDFs give whole and right output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from apache_beam.testing.util import assert_that, equal_to

from headrace.runner import SparkRunner
from tests.spark_session import shared_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

split_from_outside = pytest.mark.never(
    "the test steers a split of a running bundle through objects in its own memory; our bundles "
    "run in other processes, and restrictions are dealt out before processing begins"
)
split_by_the_clock = pytest.mark.never(
    "direct_test_splits is an option of Beam's direct runner, which splits bundles by wall time"
)


def pipeline(*, shards: int, drain: bool = False) -> beam.Pipeline:
    options = PipelineOptions([f"--shards={shards}", "--progress=off"])
    return beam.Pipeline(runner=SparkRunner(spark=shared_session(), drain=drain), options=options)


class TestSplits(fn_runner_test.FnApiRunnerSplitTest):  # type: ignore[misc]
    shards = 2

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return pipeline(shards=self.shards, drain=is_drain)

    def test_nosplit_sdf(self) -> None:
        """Runs as it is, but for the counter: in a worker it must be a new one, not a name."""
        counter = fn_runner_test.ElementCounter
        with mock.patch.object(counter, "__reduce__", lambda _: (counter, ())):
            super().test_nosplit_sdf()

    @split_from_outside
    def test_checkpoint(self) -> None:
        super().test_checkpoint()

    @split_from_outside
    def test_split_half(self) -> None:
        super().test_split_half()

    @split_from_outside
    def test_checkpoint_sdf(self) -> None:
        super().test_checkpoint_sdf()

    @split_from_outside
    def test_checkpoint_draining_sdf(self) -> None:
        super().test_checkpoint_draining_sdf()

    @split_from_outside
    def test_split_half_sdf(self) -> None:
        super().test_split_half_sdf()

    @split_from_outside
    def test_split_half_draining_sdf(self) -> None:
        super().test_split_half_draining_sdf()

    @split_from_outside
    def test_split_crazy_sdf(self, seed: int | None = None) -> None:
        super().test_split_crazy_sdf(seed)

    @split_from_outside
    def test_split_crazy_draining_sdf(self, seed: int | None = None) -> None:
        super().test_split_crazy_draining_sdf(seed)

    @split_by_the_clock
    def test_time_based_split_manager(self) -> None:
        super().test_time_based_split_manager()


class InTwos(beam.transforms.core.RestrictionProvider):  # type: ignore[misc]
    """Splits a range into parts of two before processing."""

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def split(self, element: int, restriction: OffsetRange) -> Iterator[OffsetRange]:
        del element
        yield from restriction.split(2)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        del element
        return int(restriction.size())


RESTRICTION = beam.DoFn.RestrictionParam(InTwos())


class Enumerate(beam.DoFn):  # type: ignore[misc]
    """Gives one list per restriction: what was claimed in it."""

    def process(self, element: int, tracker: Any = RESTRICTION) -> Iterator[list[int]]:
        position = tracker.current_restriction().start
        claimed = []
        while tracker.try_claim(position):
            claimed.append(position)
            position += 1
        yield [element, *claimed]


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_every_part_of_a_split_restriction_is_processed_once(shards: int) -> None:
    with pipeline(shards=shards) as p:
        parts = p | beam.Create([5, 2], reshuffle=False) | "SDF" >> beam.ParDo(Enumerate())
        assert_that(parts, equal_to([[5, 0, 1], [5, 2, 3], [5, 4], [2, 0, 1]]))
