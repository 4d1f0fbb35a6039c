"""A running pipeline from outside: waiting, looking, draining, cancelling, interrupting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, window

from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.reading import epochs_of, read_description, read_manifest
from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from headrace.state.files import Files
from tests.spark_session import shared_session
from tests.streaming.harness import (
    Gathered,
    checkpointed,
    finished,
    jot,
    jotted,
    started,
    streaming,
    until,
)

pytestmark = [pytest.mark.timeout(150, func_only=True)]


def numbers() -> Any:
    """An endless streaming DataFrame: `value` counts from 0."""
    return shared_session().readStream.format("rate").option("rowsPerSecond", 50).load()


class Counted(beam.DoFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self._seen = Metrics.counter("control", "seen")

    def process(self, element: Any) -> list[Any]:
        self._seen.inc()
        return [element.value]


def seen(result: StreamResult) -> int:
    found = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    return sum(int(counter.committed) for counter in found)


@pytest.mark.spark
def test_a_running_pipeline_shows_its_metrics_and_a_drain_closes_its_windows(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    p = streaming(shards=1)
    (
        p
        | ReadFromSpark(numbers(), timestamp="timestamp")
        | beam.ParDo(Counted())
        # Such a window ends long after this test: only a drain can close it.
        | beam.WindowInto(window.FixedWindows(10_000_000))
        | beam.Map(lambda x: ("k", x))
        | beam.combiners.Count.PerKey()
        | jot(out)
    )
    with started(p) as result:
        until(lambda: seen(result) > 0)
        began = time.monotonic()
        assert result.wait_until_finish(200) == "RUNNING"
        assert time.monotonic() - began < 60  # it runs for ever
        until(lambda: result.stream_status.state_rows > 0)
        assert jotted(out) == []
        assert result.drain(30_000) == "DRAINED"
        assert jotted(out) == [("k", seen(result))]
        assert result.wait_until_finish() == "DRAINED"


@pytest.mark.spark
def test_a_cancelled_pipeline_goes_on_where_it_was_and_counts_every_number_once(
    tmp_path: Path,
) -> None:
    gathered = Gathered()

    def build() -> beam.Pipeline:
        p = checkpointed(tmp_path)
        (
            p
            | "Read" >> ReadFromSpark(numbers(), timestamp="timestamp")
            | "Count" >> beam.ParDo(Counted()).with_output_types(int)
            | "Pair" >> beam.Map(lambda x: (x % 3, x)).with_output_types(tuple[int, int])
            | "Window" >> beam.WindowInto(
                window.GlobalWindows(), trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | "Group" >> beam.GroupByKey()
            | "Each" >> beam.FlatMap(lambda kv: [(x,) for x in kv[1]])
            | "Gather" >> gathered.sink("value bigint")
        )
        return p

    with started(build()) as first:
        until(lambda: len(gathered.rows) > 0)
        assert first.cancel() == "CANCELLED"
    assert first.state == "CANCELLED"
    committed, counted = first.stream_status.epoch, seen(first)
    with started(build()) as second:
        until(lambda: second.stream_status.epoch >= committed + 2 and seen(second) > counted)
    # Rows of an epoch that was cut off between sink and commit come again under its number.
    rows = [value for epoch, found in gathered.epochs.items() for (value,) in found
            if epoch <= second.stream_status.epoch]  # fmt: skip
    assert sorted(rows) == list(range(len(rows)))
    assert seen(second) == len(rows)


class Called(beam.DoFn):  # type: ignore[misc]
    """Registers a callback that writes its element down; fails at elements below zero."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def process(
        self, element: int, finaliser: Any = beam.DoFn.BundleFinalizerParam
    ) -> list[int]:
        path = self._path

        def call() -> None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{element}\n")

        finaliser.register(call)
        if element < 0:
            message = "no such element"
            raise ValueError(message)
        return [element]


@pytest.mark.also_on_spark
def test_callbacks_run_after_the_commit_and_never_for_a_failed_epoch(tmp_path: Path) -> None:
    called = tmp_path / "called"
    stream = (
        test_stream.TestStream(coder=coders.VarIntCoder())
        .add_elements([1, 2])
        .add_elements([3])
        .advance_watermark_to(5)
        .add_elements([-4])
    )
    p = streaming(shards=1)
    p | stream | "Called" >> beam.ParDo(Called(called))
    with pytest.raises(ValueError, match="no such element .while running 'Called'"):
        finished(p)
    assert sorted(jotted(called)) == [1, 2, 3]


@pytest.mark.parametrize("kept", [True, False])
def test_local_stores_stay_only_where_a_checkpoint_does(tmp_path: Path, kept: bool) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .add_elements([("k", 1)])
        .advance_watermark_to_infinity()
    )
    local = tmp_path / "local"
    p = checkpointed(tmp_path) if kept else streaming(f"--state_dir={local}")
    p | stream | beam.WindowInto(window.FixedWindows(10)) | beam.GroupByKey()
    finished(p)
    assert bool(list(local.rglob("*.mdb"))) is kept


ENDLESS = textwrap.dedent(
    """
    import sys

    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import window

    from headrace.engine.spark.session import start_session
    from headrace.io import ReadFromSpark
    from headrace.runner import SparkRunner

    spark = start_session("local[1]")
    frame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    options = PipelineOptions(
        ["--shards=1", "--progress=off", f"--checkpoint={sys.argv[1]}",
         f"--state_dir={sys.argv[2]}"]
    )
    p = beam.Pipeline(runner=SparkRunner(spark=spark), options=options)
    (
        p
        | ReadFromSpark(frame, timestamp="timestamp")
        | beam.Map(lambda row: ("k", row.value)).with_output_types(tuple[str, int])
        | beam.WindowInto(window.FixedWindows(10_000_000))
        | beam.CombinePerKey(sum)
    )
    result = p.run()
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        print("interrupted, and", result.state, "after epoch", result.stream_status.epoch)
    spark.stop()
    """
)


@pytest.mark.spark
def test_ctrl_c_ends_the_process_between_two_epochs_and_the_checkpoint_is_good(
    tmp_path: Path,
) -> None:
    checkpoint = tmp_path / "checkpoint"
    files = Files(str(checkpoint))
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(checkpoint), str(tmp_path / "local")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        until(lambda: len(epochs_of(files)) >= 2 or process.poll() is not None, 70)
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group, Java too
        told, errors = process.communicate(timeout=40)
    finally:
        process.kill()
    newest = epochs_of(files)[-1]
    assert told.splitlines() == [f"interrupted, and CANCELLED after epoch {newest}"], errors[-2000:]
    assert process.returncode == 0
    assert read_manifest(files, newest).partitions
    description = read_description(files)
    assert description is not None
    with Checkpoint.open(str(checkpoint), description.to_json(), now=0) as reopened:
        assert reopened.next_epoch == newest + 1
