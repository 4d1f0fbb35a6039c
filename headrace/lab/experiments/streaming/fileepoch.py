"""How long a tiny epoch of a streaming DataFrame takes: brought by Spark's query, and by our loop.

One Parquet file of ten rows is an epoch; a count by key and window, so one exchange; a checkpoint
on disk. All files are there from the beginning. The time is that from the begin of an epoch to the
begin of the next one, so asking the source and both logs are in it. Spark's own windowed count of
the same files takes turns with them; its time is between the begins of its batches.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.io import ReadFromSpark
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load
from headrace.lab.experiments.streaming.data import START_SECONDS, stream, write_file
from headrace.lab.experiments.streaming.epoch import COLD_EPOCHS, KEYS, ROWS
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line
from headrace.lab.experiments.streaming.ownloop import BAR_MILLIS, Tally

OWN = "headrace, its own loop"
BY_SPARK = "headrace, a query of Spark's"
NATIVE = "Spark alone, windowed count"
#: Spark remembers 100 progress reports of a query.
MOST_EPOCHS = 90

Variant = Callable[[], tuple[list[float], list[str]]]


def write(folder: Path, epochs: int) -> None:
    """Write a file for each epoch, a second of event time apart, and one that closes windows."""
    for n in range(epochs + 1):
        at = START_SECONDS + n if n < epochs else START_SECONDS + 10 * epochs
        write_file(folder, n, {
            "key": [k % KEYS for k in range(ROWS)], "value": [1] * ROWS, "bucket": [n] * ROWS,
            "at": [at * 1_000_000] * ROWS,
        })  # fmt: skip


def own_epochs(bed: Bed, epochs: int, who: str) -> tuple[list[float], list[str]]:
    """Run headrace; give the milliseconds of epochs, and what was wrong."""
    with bed.folder() as folder:
        files = folder / "in"
        write(files, epochs)
        pipeline = bed.pipeline(folder, "--available_now", f"--who_asks={who}")
        (
            pipeline
            | ReadFromSpark(stream(bed.spark, files, 1), timestamp="at")
            | beam.Map(lambda row: (row.key, 1)).with_output_types(tuple[int, int])
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.ParDo(Tally())
        )
        result = pipeline.run()
        result.wait_until_finish()
        # The row that closes windows is in one that stays open.
        counted, expected = answer_of(result).get("counted", 0), epochs * ROWS
        began = [parts.began for parts in result.stream_status.recent]
    wrong = [] if counted == expected else [f"{who}: counted {counted} of {expected}"]
    return gaps(began), wrong


def native_epochs(bed: Bed, epochs: int) -> tuple[list[float], list[str]]:
    """Run Spark alone."""
    from pyspark.sql import functions as F

    with bed.folder() as folder:
        files = folder / "in"
        write(files, epochs)
        counts = (
            stream(bed.spark, files, 1)
            .withWatermark("at", "0 seconds")
            .groupBy(F.window("at", "10 seconds"), "key")
            .count()
        )
        writer = counts.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        reports = query.recentProgress
    began = [_seconds(report["timestamp"]) for report in reports]
    read = sum(report["numInputRows"] for report in reports)
    expected = (epochs + 1) * ROWS
    return gaps(began), [] if read == expected else [f"native: read {read} of {expected}"]


def _seconds(moment: str) -> float:
    return datetime.datetime.fromisoformat(moment).timestamp()


def gaps(began: Sequence[float]) -> list[float]:
    """Give the milliseconds between the begins of epochs."""
    return [(later - at) * 1e3 for at, later in pairwise(began)]


def measure(bed: Bed, *, epochs: int = 40, rounds: int = 3) -> CaseResult:
    """Run all of them in turns."""
    if not COLD_EPOCHS < epochs <= MOST_EPOCHS:
        msg = f"{epochs} epochs: must be more than {COLD_EPOCHS}, and {MOST_EPOCHS} at most"
        raise ValueError(msg)
    before = load()
    run: dict[str, Variant] = {
        OWN: partial(own_epochs, bed, epochs, "headrace"),
        BY_SPARK: partial(own_epochs, bed, epochs, "spark"),
        NATIVE: partial(native_epochs, bed, epochs),
    }
    samples: dict[str, list[float]] = {name: [] for name in run}
    wrong: list[str] = []
    for number in range(rounds):
        for name, variant in run.items():
            found, complaints = variant()
            samples[name] += found[COLD_EPOCHS:epochs]
            wrong += complaints
            last = statistics.median(found[COLD_EPOCHS:epochs])
            bed.say(f"fileepoch, round {number + 1}: {name}: {last:.0f} ms")
    lines = {
        name: Line(name=name, unit="ms per epoch", samples=tuple(found))
        for name, found in samples.items()
    }
    bar = Bar(
        what="a tiny epoch of files with one exchange, ms", value=lines[OWN].median,
        limit=BAR_MILLIS, at_most=True,
    )
    return CaseResult(
        case="fileepoch", what=f"an epoch of a file of {ROWS} rows, {bed.cores} cores",
        lines=tuple(lines.values()), bars=(bar,), wrong=tuple(wrong), load=(before, load()),
    )
