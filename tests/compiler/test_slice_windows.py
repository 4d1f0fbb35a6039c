"""Which groupings keep slices instead of windows, and what explain says of it."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

from headrace.compiler.compile import compile_pipeline
from headrace.plan.slices import Slices
from headrace.plan.supersteps import Channel


def grouping(window_into: Any, combine: Any = None, *, slicing: bool = True) -> Channel:
    """Compile a windowed grouping; give its channel."""
    p = beam.Pipeline()
    pairs = p | beam.Create([("k", 1)]) | window_into
    _ = pairs | (combine or beam.CombinePerKey(sum))
    proto = p.to_runner_api(default_environment=EmbeddedPythonEnvironment.default())
    plan = compile_pipeline(proto, shards=2, streaming=True, slicing=slicing)
    (found,) = [c for c in plan.channels if c.groups and c.windowing_id]
    return found


@pytest.mark.parametrize("combine", [beam.CombinePerKey(sum), beam.GroupByKey()])
def test_sliding_windows_that_fire_once_share_slices(combine: Any) -> None:
    channel = grouping(beam.WindowInto(window.SlidingWindows(300, 1, offset=0.5)), combine)
    assert channel.slices == Slices(size=300_000_000, period=1_000_000, offset=500_000)
    assert channel.reason.endswith(
        "windows of 300 s every 1 s overlap: one partial per slice of 1 s, not 300 copies"
    )


@pytest.mark.parametrize(
    "window_into",
    [
        beam.WindowInto(window.FixedWindows(10)),
        beam.WindowInto(window.SlidingWindows(10, 10)),  # they do not overlap
        beam.WindowInto(window.SlidingWindows(10, 4)),  # they do not begin at fractions
        beam.WindowInto(window.SlidingWindows(1, 0.0005)),  # finer than Beam's coder
        beam.WindowInto(window.SlidingWindows(10, 5), allowed_lateness=1),
        beam.WindowInto(window.Sessions(10)),
        beam.WindowInto(
            window.SlidingWindows(10, 5), trigger=trigger.Repeatedly(trigger.AfterCount(2)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
        beam.WindowInto(
            window.SlidingWindows(10, 5),
            timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST,
        ),
    ],
)
def test_all_other_windows_are_kept_whole(window_into: Any) -> None:
    assert grouping(window_into).slices is None


def test_slicing_can_be_switched_off() -> None:
    channel = grouping(beam.WindowInto(window.SlidingWindows(300, 1)), slicing=False)
    assert channel.slices is None
