"""A driver whose checkpoint is in an object store; also a process of its own, to be killed.

python -m tests.streaming.store_driver CHECKPOINT OUTPUT STATE_DIR [INBOX]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io import restriction_trackers
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.utils.timestamp import Duration

from headrace.engine.spark.session import start_session
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.runner import SparkRunner

STEPS = 6
KEYS = ("a", "b", "c")


class Steps(core.RestrictionProvider):  # type: ignore[misc]
    """The element is the number of steps."""

    def create_tracker(self, restriction: Any) -> Any:
        return restriction_trackers.OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element: int) -> Any:
        return restriction_trackers.OffsetRange(0, element)

    def restriction_size(self, element: int, restriction: Any) -> int:
        del element
        return int(restriction.size())


STEPWISE = core.DoFn.RestrictionParam(Steps())


class Counter(beam.DoFn):  # type: ignore[misc]
    """An unbounded source of Beam's kind: one step, then the rest is put off to another epoch."""

    @core.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self, element: int, tracker: Any = STEPWISE
    ) -> Iterator[tuple[str, int]]:
        del element
        step = tracker.current_restriction().start
        if tracker.try_claim(step):
            yield from ((key, step) for key in KEYS)
            tracker.defer_remainder(Duration(0.3))


class Total(beam.DoFn):  # type: ignore[misc]
    """Adds up what a key brings: an epoch that is lost or counted twice shows in all later rows."""

    SUM = CombiningValueStateSpec("sum", combine_fn=sum)

    def process(
        self,
        pair: tuple[str, int],
        total: Any = beam.DoFn.StateParam(SUM),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[str, int, int]]:
        total.add(pair[1])
        yield *pair, total.read()


def run(
    checkpoint: str, output: str, state_dir: str, inbox: str = "", spark: Any = None
) -> None:
    """Run to the end; each epoch's rows go to a file, which an epoch that comes again replaces.

    Reads the inbox, a folder of JSON files, as a streaming DataFrame; without one, Beam's source.
    """
    spark = spark or start_session("local[2]")

    def take(frame: Any, epoch: int) -> None:
        rows = [list(row) for row in frame.collect()]
        Path(output, f"{epoch}.json").write_text(json.dumps(rows), encoding="utf-8")

    pipeline = beam.Pipeline(
        runner=SparkRunner(spark=spark),
        options=PipelineOptions([
            f"--checkpoint={checkpoint}", f"--state_dir={state_dir}", "--shards=2",
            "--streaming", "--progress=off", *(["--available_now"] if inbox else []),
        ]),
    )  # fmt: skip
    if inbox:
        reader = spark.readStream.schema("key string, at long, step int")
        frame = reader.option("maxFilesPerTrigger", 1).json(inbox)
        found = pipeline | ReadFromSpark(frame, timestamp="at") | beam.Map(
            lambda row: (row.key, row.step)
        ).with_output_types(tuple[str, int])
    else:
        found = pipeline | beam.Create([STEPS], reshuffle=False) | beam.ParDo(Counter())
    _ = (
        found
        | "total" >> beam.ParDo(Total())
        | WriteToSpark(function=take, schema="key string, step int, total int")
    )
    pipeline.run().wait_until_finish()


def written(output: Path) -> list[tuple[str, int, int]]:
    """All rows, sorted."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in output.iterdir()]
    return sorted(tuple(row) for rows in found for row in rows)


if __name__ == "__main__":
    run(*sys.argv[1:])
