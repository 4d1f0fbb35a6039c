"""On one shard groups leave in the order in which their keys came, in each way of grouping."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)

from headrace.testing import LocalRunner
from tests.worker.harness import SEEN, collect

PAIRS: list[tuple[Any, Any]] = [
    ("foo", 1), ("bar", 2), ("foo", 3), ("zoo", 4), ("all", 5), ("bar", 6),
]  # fmt: skip
GROUPS = [("foo", [1, 3]), ("bar", [2, 6]), ("zoo", [4]), ("all", [5])]

WINDOWINGS = {
    "global": beam.WindowInto(GlobalWindows()),
    "fixed": beam.WindowInto(FixedWindows(60)),
    "sliding": beam.WindowInto(SlidingWindows(60, 60)),
    "sessions": beam.WindowInto(Sessions(60)),
    "trigger": beam.WindowInto(
        FixedWindows(60), trigger=trigger.AfterWatermark(early=trigger.AfterCount(100)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    ),
}  # fmt: skip


def groups(windowing: Any, pairs: list[tuple[Any, Any]], *flags: str) -> list[Any]:
    """Give what leaves the grouping, in the order in which it leaves."""
    SEEN.clear()
    options = PipelineOptions(["--shards=1", *flags])
    with beam.Pipeline(LocalRunner(), options) as pipeline:
        _ = (
            pipeline
            | beam.Create(pairs, reshuffle=False)
            | "Times" >> beam.Map(lambda pair: TimestampedValue(pair, 5))
            | windowing
            | beam.GroupByKey()
            | "Lists" >> beam.MapTuple(lambda key, values: (key, list(values)))
            | collect()
        )
    return SEEN["out"]


@pytest.mark.parametrize("columns", ["off", "on"])
@pytest.mark.parametrize("way", WINDOWINGS)
def test_groups_leave_in_the_order_in_which_their_keys_came(way: str, columns: str) -> None:
    assert groups(WINDOWINGS[way], PAIRS, f"--columns={columns}") == GROUPS


def test_keys_that_are_known_by_their_encoding_leave_in_the_order_of_their_coming_too() -> None:
    pairs = [((key, None, 1.5), value) for key, value in PAIRS]
    wanted = [((key, None, 1.5), values) for key, values in GROUPS]
    assert groups(WINDOWINGS["global"], pairs) == wanted
