"""`make demo`: the auction house on embedded Spark, with its answer checked.

Runs examples/auction.py's pipeline through headrace, then computes the same answers in plain Python
from the same events, with no Beam and no Spark, and compares.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

# Run from anywhere: the pipeline lies beside this file, headrace may not be installed.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import auction  # noqa: E402


def expected(events: int) -> dict[str, list[Any]]:
    """The answers by plain loops over the same events."""
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


def found(folder: Path, name: str) -> list[Any]:
    """What the pipeline wrote under this name."""
    rows = [
        json.loads(line)
        for path in sorted(folder.glob(f"{name}-*"))
        for line in path.read_text().splitlines()
    ]
    return sorted(rows)


def main(argv: list[str] | None = None) -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000, help="how many bids to make")
    known, rest = parser.parse_known_args(argv)
    options = PipelineOptions(
        ["--runner=headrace.SparkRunner", "--spark_master=local[*]", "--job_name=auction", *rest]
    )
    print(f"headrace demo: {known.events:,} bids through joins, windows and a side input")
    print("starting Spark inside this process ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        start = time.monotonic()
        pipeline = beam.Pipeline(options=options)
        results = auction.build(pipeline, known.events)
        for name in ("sellers", "history", "shares"):
            rows = results[name] | f"Line {name}" >> beam.Map(json.dumps)
            rows | f"Write {name}" >> beam.io.WriteToText(str(Path(folder) / name))
        result = pipeline.run()
        result.wait_until_finish()
        seconds = time.monotonic() - start
        plan = result.plan
        print(
            f"done in {seconds:.1f} s: {len(plan.supersteps)} supersteps on {plan.shards} shards, "
            f"{sum(1 for _ in plan.stages())} stages"
        )
        return compare(expected(known.events), Path(folder))


def compare(answers: dict[str, list[Any]], folder: Path) -> int:
    """Print one verdict per answer; 0 if all are right."""
    wrong = 0
    for name, rows in answers.items():
        got = found(folder, name)
        right = got == rows
        wrong += not right
        verdict = "equal to plain Python" if right else f"WRONG: {len(got)} rows found"
        print(f"  {name:<8} {len(rows):>8,} rows  {verdict}")
    for category, share in answers["shares"]:
        print(f"    {category:<7} {'#' * round(40 * share):<40} {share:.3f}")
    print("demo passed" if not wrong else "demo FAILED")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
