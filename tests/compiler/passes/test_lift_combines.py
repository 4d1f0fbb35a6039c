"""A combine in streaming always meets its grouping as accumulators."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms import trigger, window
from apache_beam.transforms.window import TimestampCombiner

from headrace.compiler.compile import compile_pipeline

PARTS = common_urns.combine_components
PRECOMBINE = PARTS.COMBINE_PER_KEY_PRECOMBINE.urn
CONVERT = PARTS.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn
MERGE = PARTS.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn
EXTRACT = PARTS.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn
WHOLE = PARTS.COMBINE_GROUPED_VALUES.urn


def combine_urns(when: Any, output_time: Any = None) -> tuple[set[str], str]:
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | beam.Create([("a", 1)])
        | beam.WindowInto(
            window.FixedWindows(10), trigger=when, timestamp_combiner=output_time,
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        )
        | beam.CombinePerKey(sum)
    )
    plan = compile_pipeline(pipeline.to_runner_api(), shards=1, name="combine", streaming=True)
    found = {
        transform.spec.urn
        for stage in plan.stages()
        for transform in beam_fn_api_pb2.ProcessBundleDescriptor.FromString(
            stage.transforms
        ).transforms.values()
    }
    (windowing,) = {text for text in plan.facts.windowings.values() if "fixed" in text}
    return found & {PRECOMBINE, CONVERT, MERGE, EXTRACT, WHOLE}, windowing


@pytest.mark.parametrize(
    ("when", "output_time", "first"),
    [
        (trigger.AfterWatermark(), None, PRECOMBINE),
        (trigger.AfterWatermark(early=trigger.AfterProcessingTime(5)), None, PRECOMBINE),
        (trigger.AfterWatermark(early=trigger.AfterCount(5)), None, CONVERT),
        (trigger.Repeatedly(trigger.AfterCount(5)), None, CONVERT),
        (trigger.AfterWatermark(), TimestampCombiner.OUTPUT_AT_EARLIEST, CONVERT),
    ],
    ids=["watermark", "early by clock", "early by count", "count", "times of elements"],
)
def test_what_reaches_the_grouping_of_a_combine_is_an_accumulator(
    when: Any, output_time: Any, first: str
) -> None:
    urns, _ = combine_urns(when, output_time)
    assert urns == {first, MERGE, EXTRACT}


def test_the_grouping_keeps_the_trigger_of_the_pipeline() -> None:
    _, windowing = combine_urns(trigger.AfterWatermark(early=trigger.AfterCount(5)))
    assert "element_count: 5" in windowing
