"""The times that groups carry into the next step, against Beam's local runner."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from headrace.worker.batched.batches import Columns, in_millis
from tests.worker.harness import collect, on_beam, on_headrace


@pytest.mark.parametrize(
    "window_into",
    [
        beam.WindowInto(window.FixedWindows(10)),
        beam.WindowInto(window.SlidingWindows(10, 5)),
        beam.WindowInto(window.Sessions(3)),
        beam.WindowInto(
            window.FixedWindows(10), trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
    ],
)
def test_a_group_at_the_end_of_its_window_has_the_time_that_beam_gives_it(
    window_into: Any,
) -> None:
    def build(p: beam.Pipeline) -> None:
        stamped = p | beam.Create([12, -4]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        pairs = stamped | window_into | beam.Map(lambda t: ("k", t))
        _ = pairs | beam.GroupByKey() | collect(times=True)

    def times(found: dict[str, list[Any]]) -> list[int]:
        return sorted(timestamp.micros for _, timestamp, _, _ in found["out"])

    ours, _ = on_headrace(build)
    theirs, _ = on_beam(build)
    assert times(ours) == times(theirs)
    assert times(ours)[-1] > 12_000_000


def test_times_are_cut_towards_zero_and_whole_ones_are_left_alone() -> None:
    def one(micros: int) -> Any:
        return WindowedValue("v", Timestamp(micros=micros), (window.GlobalWindow(),))

    assert in_millis(one(9_999_999)).timestamp_micros == 9_999_000
    assert in_millis(one(-1_999)).timestamp_micros == -1_000
    whole = one(5_000)
    assert in_millis(whole) is whole
    several = Columns([1_999, -1, 0], [()] * 3, [PANE_INFO_UNKNOWN] * 3)
    assert in_millis(several).times == [1_000, 0, 0]
