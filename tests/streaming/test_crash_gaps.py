"""A driver that ends in any gap of the commit; the next one gives the answer of an unbroken run.

The short form of tests/lab/experiments/faults/test_crash_points.py: the driver ends by an
exception, not by a kill, and so the session need not start anew. What lies on disk is
the same, as every file appears whole. In one process there are all gaps; on Spark those of the
driver, as its tasks are in other processes, which `HEADRACE_CRASH` alone reaches. The gaps of a
publication are in tests/kafka/test_exactly_once.py.
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

from headrace.testing import faults
from headrace.testing.faults import Point
from tests.places import Place
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


ALL = [(key, n) for key in ("a", "b", "c") for n in range(1, EPOCHS + 1)]
#: The number of the last epoch: all sources have ended.
LAST = EPOCHS + 1
#: The last epoch that counts when the driver has ended at a gap of epoch 3.
COUNTS = {
    Point.BEFORE_TASKS: 2, Point.BEFORE_SEAL: 2, Point.AFTER_SEAL: 2, Point.WORKER_LOST: 2,
    Point.BEFORE_SINKS: 2, Point.BETWEEN_SINKS: 2, Point.AFTER_SINKS: 2, Point.AFTER_MANIFEST: 3,
    Point.AFTER_RETURN: LAST,
}


def last_that_counts(folder: Path) -> int:
    return max(int(path.stem) for path in (folder / "checkpoint" / "manifests").iterdir())


def end_there(gap: Point, folder: Path, gathered: Gathered) -> None:
    """Run until a driver ends at a gap of epoch 3, or of the last one, if only that has it."""
    epoch = LAST if gap is Point.AFTER_RETURN else 3
    with faults.driver_ends(gap, epoch):
        if gap is Point.WORKER_LOST:  # is there only where one was lost
            with faults.worker_dies(Point.AFTER_SEAL, epoch):
                run(folder, gathered)
        else:
            run(folder, gathered)


@pytest.mark.parametrize("gap", faults.GAPS, ids=lambda gap: gap.value)
def test_a_driver_that_ends_in_a_gap_is_followed_by_one_that_loses_and_doubles_nothing(
    where: Place, tmp_path: Path, gap: Point
) -> None:
    del where
    gathered = Gathered()
    end_there(gap, tmp_path, gathered)
    assert last_that_counts(tmp_path) == COUNTS[gap]
    run(tmp_path, gathered)
    assert gathered.rows == ALL


@pytest.mark.parametrize("gap", faults.TASK_GAPS, ids=lambda gap: gap.value)
def test_an_epoch_whose_worker_died_is_run_again_by_the_same_driver(
    where: Place, tmp_path: Path, gap: Point
) -> None:
    del where
    gathered = Gathered()
    with faults.worker_dies(gap, 3):
        run(tmp_path, gathered)
    assert gathered.rows == ALL
    assert last_that_counts(tmp_path) == LAST


@pytest.mark.spark
@pytest.mark.parametrize(
    "gap",
    [Point.BEFORE_TASKS, Point.BEFORE_SINKS, Point.AFTER_SINKS, Point.AFTER_MANIFEST],
    ids=lambda gap: gap.value,
)
def test_on_spark_too(tmp_path: Path, gap: Point) -> None:
    gathered = Gathered()
    end_there(gap, tmp_path, gathered)
    assert last_that_counts(tmp_path) == COUNTS[gap]
    run(tmp_path, gathered)
    assert gathered.rows == ALL
