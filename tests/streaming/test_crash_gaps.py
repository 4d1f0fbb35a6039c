"""A driver that ends in any gap of the commit; the next one gives the answer of an unbroken run.

The short form of tests/lab/experiments/faults/test_crash_points.py: the driver ends by an
exception, not by a kill, and so the session need not start anew. What lies on disk is
the same, as every file appears whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import TimestampedValue

from headrace.state.crash_points import Point, observed
from tests.streaming.harness import Gathered, checkpointed, finished

pytestmark = [pytest.mark.timeout(120)]

EPOCHS = 5


class Count(beam.DoFn):  # type: ignore[misc]
    """Tells how often a key came so far: a doubled or lost epoch shows at once."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self,
        pair: tuple[str, int],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[str, int]]:
        seen.add(1)
        yield pair[0], seen.read()


def run(folder: Path, gathered: Gathered) -> None:
    pipeline = checkpointed(folder)
    script = TestStream()
    for epoch in range(EPOCHS):
        script = script.add_elements(
            [TimestampedValue((key, epoch), epoch) for key in ("a", "b", "c")]
        )
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | beam.ParDo(Count())
        | gathered.sink("key string, times int")
    )
    finished(pipeline)


class EndedError(Exception):
    """The driver ends here."""


@pytest.mark.parametrize(
    "gap", [Point.BEFORE_TASKS, Point.BEFORE_SINKS, Point.AFTER_SINKS, Point.AFTER_MANIFEST]
)
def test_a_driver_that_ends_in_a_gap_is_followed_by_one_that_loses_and_doubles_nothing(
    tmp_path: Path, gap: Point
) -> None:
    gathered = Gathered()

    def end(point: Point, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (gap, 3):
            raise EndedError

    with observed(end), pytest.raises(EndedError):
        run(tmp_path, gathered)
    manifests = sorted(path.stem for path in (tmp_path / "checkpoint" / "manifests").iterdir())
    assert int(manifests[-1]) == (3 if gap is Point.AFTER_MANIFEST else 2)
    run(tmp_path, gathered)
    assert gathered.rows == [(key, n) for key in ("a", "b", "c") for n in range(1, EPOCHS + 1)]
