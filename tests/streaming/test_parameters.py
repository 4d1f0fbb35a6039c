"""What a DoFn is handed in a stream: what Beam's local runner hands it in a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

from tests.streaming.harness import jot, jotted, streaming
from tests.worker.harness import collect, gathered_by_beam, in_order
from tests.worker.parameters import PARTS, stamped

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120, func_only=True)]


def all_parts(numbers: Any) -> Any:
    """Every part that a stream can have; the end of a bundle is another one there."""
    pairs = stamped(numbers)
    parts = [part(pairs) for name, part in PARTS.items() if name != "after finish_bundle"]
    return parts | beam.Flatten()


def test_every_parameter_of_a_stream_has_the_type_and_value_that_beam_gives_it(
    tmp_path: Path,
) -> None:
    """The watermark moves after each element."""
    out = tmp_path / "out"
    script = (
        TestStream()
        .advance_watermark_to(0)
        .add_elements([TimestampedValue(1, 1)])
        .advance_watermark_to(5)
        .add_elements([TimestampedValue(7, 7)])
        .advance_watermark_to_infinity()
    )
    with streaming(shards=2) as p:
        all_parts(p | script) | jot(out)
    expected = gathered_by_beam(lambda q: all_parts(q | beam.Create([1, 7])) | collect())
    found = in_order(jotted(out))
    assert [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]] == []
