"""`make demo`: an auction house as a stream on embedded Spark, with its answer checked.

A thread plays the market: it writes bids and exchange rates to files, bids out of order. Spark's
Structured Streaming reads the files as they come, examples/auction_stream.py's pipeline runs on
them epoch after epoch through headrace, and when all is read the pipeline is drained. Then the same
answers are computed in plain Python, with no Beam and no Spark, and compared.

`--batch` runs examples/auction.py's pipeline in a batch instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# Run from anywhere: the pipelines lie beside this file, headrace may not be installed.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from headrace.quiet import quietly  # noqa: E402

with quietly():  # Beam tells of optional parts that are not installed
    import apache_beam as beam
    import auction  # type: ignore[import-not-found]
    import auction_stream as stream  # type: ignore[import-not-found]
    from apache_beam.metrics import Metrics, MetricsFilter
    from apache_beam.options.pipeline_options import PipelineOptions

#: Files that the market writes in a second.
FILES_A_SECOND = 4
#: The longest bar of the chart, in characters.
BAR = 30


class Market(threading.Thread):
    """Writes bids and rates as they arrive; five minutes of event time in a few seconds."""

    def __init__(self, folder: Path, bids: int, seconds: float) -> None:
        super().__init__(name="market", daemon=True)
        self._arrivals = stream.arrivals(bids)
        self._folder = folder
        self._files = max(1, round(seconds * FILES_A_SECOND))
        for name in ("bids", "rates"):
            (folder / name).mkdir(parents=True)

    def run(self) -> None:
        rates = stream.rates()
        for number in range(self._files):
            start = len(self._arrivals) * number // self._files
            end = len(self._arrivals) * (number + 1) // self._files
            self._write("bids", number, self._arrivals[start:end])
            # The rates of a minute are known half a minute after it began; bids wait for them.
            now = stream.START + stream.SPAN * (number + 1) // self._files
            known = [r for r in rates if r.second + stream.MINUTE // 2 <= now]
            self._write("rates", number, known)
            rates = rates[len(known) :]
            time.sleep(1 / FILES_A_SECOND)
        self._write("rates", self._files, rates)

    def _write(self, kind: str, number: int, rows: list[Any]) -> None:
        """Let a file appear whole: Spark does not look at names that begin with a dot."""
        if rows:
            name = f"{number:05d}.json"
            part = self._folder / kind / f".{name}"
            part.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
            part.rename(part.with_name(name))


class Seen(beam.DoFn):
    """Counts what was read, so that the demo knows when it may drain."""

    def __init__(self) -> None:
        self.seen = Metrics.counter("demo", "seen")

    def process(self, row: Any) -> Iterator[Any]:
        self.seen.inc()
        yield row


def start(spark: Any, folder: Path, rest: list[str]) -> Any:
    """Build the pipeline on two streaming DataFrames and start it."""
    from headrace.io import BoundedOutOfOrderness, ReadFromSpark, WriteToSpark

    bids = spark.readStream.schema(
        "second long, auction long, bidder long, price long, currency string"
    ).json(str(folder / "market" / "bids"))
    rates = spark.readStream.schema("second long, currency string, cents long").json(
        str(folder / "market" / "rates")
    )
    pipeline = beam.Pipeline(
        options=PipelineOptions(
            [
                "--runner=headrace.SparkRunner",
                "--job_name=auction",
                f"--shards={min(4, os.cpu_count() or 1)}",
                f"--checkpoint={folder / 'checkpoint'}",
                *rest,
            ]
        )
    )
    late = BoundedOutOfOrderness(stream.SECONDS_UNDERWAY)
    results = stream.build(
        pipeline,
        pipeline
        | "Bids" >> ReadFromSpark(bids, timestamp="second", watermark=late)
        | "SeenBids" >> beam.ParDo(Seen()),
        pipeline
        | "Rates" >> ReadFromSpark(rates, timestamp="second")
        | "SeenRates" >> beam.ParDo(Seen()),
    )
    for name, columns in stream.COLUMNS.items():
        results[name] | f"Write {name}" >> WriteToSpark(str(folder / name), schema=columns)
    return pipeline.run()


def seen(result: Any) -> int:
    """How many rows the committed epochs have read."""
    found = result.metrics().query(MetricsFilter().with_name("seen"))
    return sum(counter.committed or 0 for counter in found["counters"])


def run_stream(spark: Any, bids: int, seconds: float, rest: list[str], console: Console) -> int:
    """Run the market against the pipeline, drain it, compare; 0 if all is right."""
    from headrace.cli.main import main as headrace

    with tempfile.TemporaryDirectory(prefix="headrace-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        market = Market(folder / "market", bids, seconds)
        result = start(spark, folder, rest)
        while result.stream_status.epoch < 0 and result.state == "RUNNING":
            time.sleep(0.1)  # the workers are importing Beam
        began = time.monotonic()
        market.start()
        most = Counter[str]()
        rows = bids + len(stream.rates())
        while seen(result) < rows and result.state == "RUNNING":
            status = result.stream_status
            most |= Counter(waiting=status.pushed_back, state=status.state_rows)
            time.sleep(0.1)
        result.drain()
        took = time.monotonic() - began
        found = {
            kind: [tuple(row)[:-1] for row in spark.read.parquet(str(folder / kind)).collect()]
            for kind in stream.COLUMNS  # the last column is the epoch
        }
        timings = Counter(row[3] for row in found["volume"])
        console.print(
            f"read by Structured Streaming, in {result.stream_status.epoch + 1} epochs of "
            f"{len(result.plan.supersteps)} supersteps on {result.plan.shards} shards: {took:.1f} s"
        )
        console.print(f"  up to {most['waiting']:,} bids waited for the rates of their minute")
        console.print(f"  up to {most['state']:,} rows of state, in the checkpoint at every epoch")
        console.print(
            f"  the volume of a minute came in {timings['early']} early panes and "
            f"{timings['on_time']} at its end"
        )
        console.print(f"  a timer for each auction: the hammer fell {len(found['sales'])} times")
        console.print("  headrace state verify:", end=" ")
        broken = headrace(["state", "verify", str(folder / "checkpoint")])
        return max(broken, compare_stream(stream.expected(bids), found, console))


def compare_stream(
    answers: dict[str, list[Any]], found: dict[str, list[Any]], console: Console
) -> int:
    """Print one verdict per answer; 0 if all are right."""
    panes: dict[tuple[str, int], int] = defaultdict(int)
    for category, minute, cents, _ in found["volume"]:
        panes[category, minute] += cents
    found = {**found, "volume": [(*key, cents) for key, cents in panes.items()]}
    table = Table("result", "rows", "against plain Python", box=None, pad_edge=False)
    wrong = 0
    for name, rows in answers.items():
        right = sorted(found[name]) == rows
        wrong += not right
        verdict = "[green]equal[/]" if right else f"[red]WRONG: {len(found[name]):,} rows found[/]"
        table.add_row(name, f"{len(rows):,}", verdict)
    console.print(table)
    sold: dict[str, int] = defaultdict(int)
    for _, category, _, cents in found["sales"]:
        sold[category] += cents
    for category, cents in sorted(sold.items()):
        bar = "#" * round(BAR * cents / max(sold.values()))
        console.print(f"  {category:<7} {bar:<{BAR}} {cents / 100:>12,.2f} sold")
    console.print("[red]demo FAILED[/]" if wrong else "[green]demo passed[/]")
    return 1 if wrong else 0


# -- the batch


def expected(events: int) -> dict[str, list[Any]]:
    """The answers of the batch by plain loops over the same events."""
    people = {p.person: p.name for p in auction.persons(events)}
    offers = list(auction.auctions(events))
    sellers = sorted([people[a.seller], a.auction] for a in offers if a.seller in people)
    best: dict[tuple[int, int], int] = {}
    for bid in auction.bids(events):
        key = (bid.auction, bid.second // auction.WINDOW_SECONDS)
        best[key] = max(best.get(key, 0), bid.price)
    history: dict[int, list[int]] = defaultdict(list)
    for (number, _), price in best.items():
        history[number].append(price)
    earned: dict[str, int] = defaultdict(int)
    for offer in offers:
        top = max(history[offer.auction], default=0)
        if top >= offer.reserve:
            earned[offer.category] += top
    most = max(earned.values())
    return {
        "sellers": sellers,
        "history": sorted([number, sorted(prices)] for number, prices in history.items()),
        "shares": sorted([category, round(sum_ / most, 3)] for category, sum_ in earned.items()),
    }


def found_lines(folder: Path, name: str) -> list[Any]:
    """What the batch wrote under this name."""
    rows = [
        json.loads(line)
        for path in sorted(folder.glob(f"{name}-*"))
        for line in path.read_text().splitlines()
    ]
    return sorted(rows)


def run_batch(events: int, rest: list[str]) -> int:
    """Run the batch pipeline and compare; 0 if all is right."""
    options = PipelineOptions(
        ["--runner=headrace.SparkRunner", "--spark_master=local[*]", "--job_name=auction", *rest]
    )
    print(f"headrace demo: {events:,} bids through joins, windows and a side input")
    print("starting Spark inside this process ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        begun = time.monotonic()
        pipeline = beam.Pipeline(options=options)
        results = auction.build(pipeline, events)
        for name in ("sellers", "history", "shares"):
            rows = results[name] | f"Line {name}" >> beam.Map(json.dumps)
            rows | f"Write {name}" >> beam.io.WriteToText(str(Path(folder) / name))
        result = pipeline.run()
        result.wait_until_finish()
        plan = result.plan
        print(
            f"done in {time.monotonic() - begun:.1f} s: {len(plan.supersteps)} supersteps on "
            f"{plan.shards} shards, {sum(1 for _ in plan.stages())} stages"
        )
        return compare_batch(expected(events), Path(folder))


def compare_batch(answers: dict[str, list[Any]], folder: Path) -> int:
    """Print one verdict per answer; 0 if all are right."""
    wrong = 0
    for name, rows in answers.items():
        got = found_lines(folder, name)
        right = got == rows
        wrong += not right
        verdict = "equal to plain Python" if right else f"WRONG: {len(got)} rows found"
        print(f"  {name:<8} {len(rows):>8,} rows  {verdict}")
    for category, share in answers["shares"]:
        print(f"    {category:<7} {'#' * round(40 * share):<40} {share:.3f}")
    print("demo passed" if not wrong else "demo FAILED")
    return 1 if wrong else 0


def main(argv: list[str] | None = None) -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", action="store_true", help="run the batch pipeline instead")
    parser.add_argument("--events", type=int, default=None, help="how many bids to make")
    parser.add_argument(
        "--seconds", type=float, default=18, help="how long the market is open (stream only)"
    )
    known, rest = parser.parse_known_args(argv)
    if known.batch:
        return run_batch(known.events or 200_000, rest)

    from headrace import session

    console = Console()
    bids = known.events or 40_000
    console.print(
        f"[bold]headrace demo[/]: {bids:,} bids of five minutes, out of order, in "
        f"{known.seconds:g} s"
    )
    console.print("starting Spark inside this process ...")
    spark = session("local[*]")
    try:
        return run_stream(spark, bids, known.seconds, rest, console)
    finally:
        spark.stop()


if __name__ == "__main__":
    raise SystemExit(main())
