"""How long an almost empty epoch takes: headrace with 0 to 3 exchanges beside Spark alone.

Both are driven by Structured Streaming from the same kind of source and write their checkpoints to
disk; the time is Spark's own `triggerExecution`. What Spark does alone runs in the JVM without any
Python: the bar is to be faster nevertheless, as soon as there is state.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import FixedWindows

from headrace.io import ReadFromSpark
from headrace.lab.experiments.micro.pipelines import NAMESPACE
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load, wait_for
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line

ROWS = 10
KEYS = 10
#: Epochs at the beginning of each run that are not counted: workers and code are still cold.
COLD_EPOCHS = 8
EXCHANGES = (0, 1, 2, 3)
BAR = 0.8
#: How many reports of a query Spark remembers: 100, unless it is told otherwise. A run may be over
#: some epochs before it is seen to be.
_REMEMBERED = "spark.sql.streaming.numRecentProgressUpdates"
_MORE = 100

Progress = Mapping[str, Any]


class CountRows(beam.DoFn):  # type: ignore[misc]
    """Passes elements on and counts them."""

    def process(self, element: Any) -> Iterable[Any]:
        Metrics.counter(NAMESPACE, "rows").inc()
        yield element


def source(spark: Any) -> Any:
    """Give a stream of a few rows per batch, a second of event time apart."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return reader.option("numPartitions", 2).option("advanceMillisPerBatch", 1000).load()


def build(p: beam.Pipeline, frame: Any, exchanges: int) -> None:
    """Count by key and window; again by the count, and again."""
    rows = p | ReadFromSpark(frame, timestamp="timestamp", watermark=5.0) | beam.ParDo(CountRows())
    pairs = (
        rows
        | beam.Map(lambda row: (row.value % KEYS, 1)).with_output_types(tuple[int, int])
        | beam.WindowInto(FixedWindows(10))
    )
    for n in range(exchanges):
        pairs = (
            pairs
            | f"Count{n}" >> beam.CombinePerKey(sum)
            | f"Swap{n}"
            >> beam.Map(lambda pair: (pair[1] % KEYS, pair[0])).with_output_types(tuple[int, int])
        )


def _remember(bed: Bed, epochs: int) -> None:
    """Let Spark remember the reports of all epochs of a run."""
    bed.spark.conf.set(_REMEMBERED, str(epochs + _MORE))


def headrace_epochs(bed: Bed, exchanges: int, epochs: int) -> tuple[list[Progress], list[str]]:
    """Run epochs on headrace; give Spark's reports, and what was wrong."""
    _remember(bed, epochs)
    with bed.folder() as folder:
        pipeline = bed.pipeline(folder)
        build(pipeline, source(bed.spark), exchanges)
        result = pipeline.run()
        name = f"headrace, {exchanges} exchanges"
        try:
            found: list[Progress] = []

            def done() -> bool:
                if result.state != "RUNNING":
                    result.wait_until_finish()  # raises what went wrong
                for query in result.queries.values():
                    found[:] = query.recentProgress
                return len(found) >= epochs

            wait_for(done, f"{epochs} epochs of {name}")
        finally:
            result.cancel()
        # Only batches that were committed count, and each of them once.
        rows, batches = answer_of(result).get("rows", 0), result.stream_status.epoch
        wrong = [] if rows == batches * ROWS else [f"{name}: {rows} rows in {batches} batches"]
        return found, wrong


def native_epochs(bed: Bed, stateful: int, epochs: int) -> tuple[list[Progress], list[str]]:
    """Run epochs on Spark alone, without or with a windowed count."""
    from pyspark.sql import functions as F

    _remember(bed, epochs)
    frame = source(bed.spark)
    if stateful:
        frame = (
            frame.withWatermark("timestamp", "5 seconds")
            .groupBy(F.window("timestamp", "10 seconds"), (F.col("value") % KEYS).alias("key"))
            .count()
        )
    with bed.folder() as folder:
        writer = frame.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", str(folder)).start()
        try:
            wait_for(lambda: len(query.recentProgress) >= epochs, f"{epochs} native epochs")
            found = list(query.recentProgress)
        finally:
            query.stop()
    short = [p["batchId"] for p in found if p["numInputRows"] != ROWS]
    return found, [f"native: batches {short} had not {ROWS} rows"] if short else []


def measure(bed: Bed, *, epochs: int = 40, rounds: int = 3) -> CaseResult:
    """Run all variants in turns."""
    if epochs <= COLD_EPOCHS:
        msg = f"{epochs} epochs: must be more than {COLD_EPOCHS}"
        raise ValueError(msg)
    before = load()
    run: dict[str, Callable[[], tuple[list[Progress], list[str]]]] = {
        "Spark alone, no state": partial(native_epochs, bed, 0, epochs),
        "Spark alone, windowed count": partial(native_epochs, bed, 1, epochs),
        **{
            _name(n): partial(headrace_epochs, bed, n, epochs) for n in EXCHANGES
        },
    }
    reports: dict[str, list[Progress]] = {name: [] for name in run}
    wrong: list[str] = []
    for number in range(rounds):
        for name, variant in run.items():
            found, complaints = variant()
            reports[name] += found[COLD_EPOCHS:epochs]
            wrong += complaints
            last = statistics.median(map(_millis, found[COLD_EPOCHS:epochs]))
            bed.say(f"epoch, round {number + 1}: {name}: {last:.0f} ms")
    lines = {name: line_of(name, found) for name, found in reports.items()}
    ratio = lines[_name(1)].median / lines["Spark alone, windowed count"].median
    bar = Bar(
        what="one stateful exchange over Spark's own windowed count", value=ratio, limit=BAR,
        at_most=True,
    )
    return CaseResult(
        case="epoch", what=f"an epoch of {ROWS} rows, {bed.cores} cores",
        lines=tuple(lines.values()), bars=(bar,), wrong=tuple(wrong), load=(before, load()),
    )


def _name(exchanges: int) -> str:
    return f"headrace, {exchanges} exchange{'' if exchanges == 1 else 's'}"


def _millis(report: Progress) -> float:
    return float(report["durationMs"]["triggerExecution"])


def line_of(name: str, reports: Sequence[Progress]) -> Line:
    """Turn progress reports into a line, with the median of each part that Spark tells of."""
    parts = ("addBatch", "walCommit", "commitOffsets", "queryPlanning")
    return Line(
        name=name, unit="ms per epoch", samples=tuple(map(_millis, reports)),
        details={
            part: statistics.median([r["durationMs"].get(part, 0) for r in reports])
            for part in parts
        },
    )
