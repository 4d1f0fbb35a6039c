"""One key with half of a combine's elements: right answers, even shards, and the key is named."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, window
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.testing import LocalRunner
from tests.streaming.harness import finished, jot, jotted, streaming

pytestmark = [pytest.mark.timeout(240)]

EACH = 4_000
SHARDS = 4
EARLY = trigger.AfterWatermark(early=trigger.AfterCount(500))
EARLIEST = window.TimestampCombiner.OUTPUT_AT_EARLIEST
WAYS: dict[str, dict[str, Any]] = {
    "a trigger that counts": {"trigger": EARLY},
    "panes with the times of elements": {"timestamp_combiner": EARLIEST},
}


def pairs(epoch: int) -> list[tuple[int, int]]:
    return [(0 if n % 2 else 1 + n % 1_000, n + epoch) for n in range(EACH)]


def script() -> TestStream:
    made = TestStream()
    for epoch in range(3):
        stamped = [window.TimestampedValue(pair, epoch) for pair in pairs(epoch)]
        made = made.add_elements(stamped)
    return made.advance_watermark_to_infinity()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flags", [(), ("--no_hot_key_merging",)], ids=["merged", "single"])
def test_sums_are_right_and_a_hot_key_does_not_fill_its_shard(
    tmp_path: Path, way: str, flags: tuple[str, ...]
) -> None:
    p = streaming(*flags, shards=SHARDS)
    _ = (
        p
        | script()
        | beam.Map(lambda pair: pair).with_output_types(tuple[int, int])
        | beam.Reshuffle()
        | beam.WindowInto(
            window.FixedWindows(1_000),
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING, **WAYS[way],
        )
        | "total" >> beam.CombinePerKey(sum)
        | jot(tmp_path / "out")
    )
    result = finished(p)
    expected: dict[int, int] = defaultdict(int)
    for epoch in range(3):
        for key, value in pairs(epoch):
            expected[key] += value
    last: dict[int, int] = {}
    for key, value in jotted(tmp_path / "out"):
        last[key] = max(value, last.get(key, 0))  # panes accumulate
    assert last == expected
    came = result.shard_elements()["total/Group"]
    hot = result.hot_keys()
    if flags:
        assert max(came) / sum(came) > 0.5
        assert hot == []
    else:
        assert max(came) / sum(came) < 0.3
        (only,) = hot
        assert (only.step, only.key) == ("total/Group", "0")
        assert 0.45 < only.share <= 0.5


def test_a_lifted_combine_names_no_hot_keys(tmp_path: Path) -> None:
    p = streaming(shards=SHARDS)
    _ = (
        p
        | script()
        | beam.WindowInto(window.FixedWindows(1_000))
        | "total" >> beam.CombinePerKey(sum)
        | jot(tmp_path / "out")
    )
    result = finished(p)
    assert result.hot_keys() == []
    (came,) = result.shard_elements().values()
    assert sum(came) <= 3 * SHARDS * 501


TRIGGERS = [
    trigger.Repeatedly(trigger.AfterCount(3)),
    trigger.AfterWatermark(early=trigger.AfterCount(2), late=trigger.AfterCount(1)),
    trigger.AfterEach(trigger.AfterCount(2), trigger.Repeatedly(trigger.AfterCount(4))),
]
EPOCHS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from(["hot", "hot", "cold"]), st.integers(0, 30)), max_size=9
        ),
        st.integers(1, 20),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(
    EPOCHS, st.sampled_from(TRIGGERS),
    st.sampled_from([window.FixedWindows(10), window.SlidingWindows(10, 5)]),
    st.sampled_from([window.TimestampCombiner.OUTPUT_AT_EOW, EARLIEST]),
)
def test_panes_are_the_same_with_and_without_merging(
    epochs: list[Any], when: Any, fn: Any, combiner: Any
) -> None:
    """Whole runs; that the panes are Beam's is shown in `tests/worker/test_merging.py`."""
    merged = _panes(epochs, when, fn, combiner)
    single = _panes(epochs, when, fn, combiner, "--no_hot_key_merging")
    assert merged == single


def _panes(epochs: list[Any], when: Any, fn: Any, combiner: Any, *flags: str) -> list[Any]:
    made = TestStream()
    mark = 0
    for elements, seconds in epochs:
        if elements:
            made = made.add_elements(
                [window.TimestampedValue((key, at), at) for key, at in elements]
            )
        mark += seconds
        made = made.advance_watermark_to(mark)
    collected: list[Any] = []
    Kept.panes = collected
    p = beam.Pipeline(
        runner=LocalRunner(), argv=["--streaming", "--shards=2", "--progress=off", *flags]
    )
    _ = (
        p
        | made.advance_watermark_to_infinity()
        | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
        | beam.WindowInto(
            fn, trigger=when, accumulation_mode=trigger.AccumulationMode.DISCARDING,
            timestamp_combiner=combiner, allowed_lateness=5,
        )
        | beam.CombinePerKey(beam.combiners.ToListCombineFn())
        | beam.ParDo(Kept())
    )
    p.run().wait_until_finish()
    return sorted(collected)


class Kept(beam.DoFn):  # type: ignore[misc]
    """Writes panes down, in the process that runs them."""

    panes: list[Any]

    def process(
        self,
        pair: tuple[str, list[int]],
        at: Any = beam.DoFn.TimestampParam,
        of: Any = beam.DoFn.WindowParam,
        info: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        key, values = pair
        Kept.panes.append((key, sorted(values), at.micros, repr(of), repr(info)))
