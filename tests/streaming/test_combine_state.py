"""What a combine keeps between early firings: accumulators, not elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, window

from headrace.runner import StreamResult
from tests.streaming.harness import jot, jotted, streaming

pytestmark = [pytest.mark.timeout(240)]

EPOCHS, EACH = 5, 1_000
EARLY = {"count": trigger.AfterCount(EACH), "clock": trigger.AfterProcessingTime(5)}


def test_accumulating_panes_of_a_combine_cost_the_size_of_their_accumulators(
    tmp_path: Path,
) -> None:
    """Means of 5,000 numbers, by two triggers; elements of 20,000 took 208,896 bytes."""
    script = TestStream()
    for _ in range(EPOCHS):
        found = [window.TimestampedValue(("key", n), 5) for n in range(EACH)]
        script = script.add_elements(found).advance_processing_time(10)
    p = streaming(shards=1)
    pairs = (
        p
        | script.advance_watermark_to_infinity()
        | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    )
    for name, early in EARLY.items():
        _ = (
            pairs
            | f"by {name}" >> beam.WindowInto(
                window.FixedWindows(1_000),
                trigger=trigger.AfterWatermark(early=early),
                accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
            )
            | f"mean {name}" >> beam.combiners.Mean.PerKey()
            | f"tag {name}" >> beam.Map(lambda pair, name=name: (name, pair[1]))
            | f"jot {name}" >> jot(tmp_path / name)
        )
    result: Any = p.run()
    assert isinstance(result, StreamResult)
    sizes: list[int] = []
    result._stream.on_epoch = lambda status: sizes.append(status.state_bytes)
    result.wait_until_finish()
    mean = (EACH - 1) / 2  # of every epoch, and so of all
    for name in EARLY:
        panes = jotted(tmp_path / name)
        assert len(panes) > EPOCHS  # each of them early, then the one on time
        assert {value for _, value in panes} == {mean}
    assert 0 < max(sizes) <= 2 * 4_096  # counted in pages of the store
