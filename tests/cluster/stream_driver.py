"""A streaming pipeline on a cluster, as a program: twenty epochs of keyed state, then what it saw.

Run by the tests in a process of its own. Every executor has a copy of the state of its own, so that
a shard that moves shows as a restore.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import TimestampedValue

from headrace.engine import spark_host
from headrace.io import WriteToSpark
from headrace.runner import SparkRunner

EPOCHS, KEYS = 20, 40


class Count(beam.DoFn):  # type: ignore[misc]
    """Counts what each key got so far."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self,
        pair: tuple[str, int],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Iterator[str]:
        key, epoch = pair
        seen.add(1)
        if epoch == EPOCHS - 1:
            yield f"{key} {seen.read()}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--drifting", action="store_true", help="let Spark place the shards")
    asked = parser.parse_args()
    if asked.drifting:
        spark_host.SparkHost.prepare_epochs = lambda *_: None  # type: ignore[method-assign]
    script = TestStream()
    for epoch in range(EPOCHS):
        script = script.add_elements(
            [TimestampedValue((f"k{n}", epoch), epoch) for n in range(KEYS)]
        )
    folder = Path(asked.folder)
    found: list[str] = []

    def take(frame: Any) -> None:
        found.extend(row.value for row in frame.collect())

    options = PipelineOptions(
        [
            "--streaming", "--shards=4", "--progress=off", f"--spark_master={asked.master}",
            f"--checkpoint={folder / 'checkpoint'}", f"--state_dir={folder / '{executor}'}",
        ]
    )  # fmt: skip
    pipeline = beam.Pipeline(runner=SparkRunner(), options=options)
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | beam.ParDo(Count())
        | WriteToSpark(function=take, schema="value string")
    )
    started = time.monotonic()
    result = pipeline.run()
    state = result.wait_until_finish()
    told = {
        "state": state, "lines": sorted(found), "seconds": time.monotonic() - started,
        "restores": result.stream_status.restores, "openings": result.stream_status.openings,
        "copies": len(list(folder.glob("executor-*"))),
    }  # fmt: skip
    Path(asked.out).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
