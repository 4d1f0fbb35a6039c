"""`headrace lab run columns-spark`: what columns bring on Spark, from the files that Spark reads.

Each workload is run from its Parquet log with columns, with objects (`--columns=off`) and by
Spark's own query, whose best size of a batch is searched first. Ends with 2 if an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.lab.commands import ROOT, chosen, get_ready, number, say, takes_cores, today
from headrace.lab.ending import Ending, exit_status
from headrace.lab.experiments.columns_spark.runs import (
    COLUMNS,
    NATIVE,
    NOISE,
    OBJECTS,
    PARTS,
    PATIENCE_SECONDS,
    PER_FILE,
    LoggedWorkload,
    Sizes,
    Way,
)
from headrace.lab.results.dated import envelope
from headrace.lab.results.summary import Better, Figure
from headrace.lab.systems.choose import choose
from headrace.lab.workload import Mode, Workload

FORMAT = 1
RESULT = ROOT / "results" / "columns-spark.json"
PAGE = ROOT / "docs" / "columns-spark.md"
WORKLOADS = (
    "nexmark:q1", "nexmark:q2", "nexmark:q3", "nexmark:q5", "nexmark:q7", "nexmark:q8",
    "yahoo:campaigns", "windowed:aggregation", "windowed:join", "hibench:fixwindow",
    "kernels:network", "kernels:pagerank",
)


#: Of Spark's rate; where headrace is below that, the page says why.
BAR = 1.5
WHY = {
    "nexmark q3": (
        "its join is a stateful DoFn of the user's own, with a cell and a timer, called for "
        "each element that the filters before it let pass; the workers take nearly all of the time"
    ),
    "kernels pagerank": (
        "its rounds are a chain of small supersteps, each a stage with Python tasks of its own, "
        "which Spark's version has in the JVM"
    ),
}


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(prog="headrace lab run columns-spark", description=__doc__)
    made.add_argument("what", nargs="*", metavar="SUITE:NAME", default=list(WORKLOADS),
                      help="workloads that can be asked of columns; twelve if none is given")
    made.add_argument("--events", type=number, default=4_000_000, metavar="N",
                      help="events of a run of many. Default: 4M")
    made.add_argument("--few", type=number, default=500_000, metavar="N",
                      help="events of a run of few. Default: 500K")
    made.add_argument("--object-events", type=number, default=1_000_000, metavar="N",
                      help="events of a run of many with objects. Default: 1M")
    made.add_argument("--rounds", type=number, default=3, metavar="N", help="Default: 3")
    takes_cores(made)
    made.add_argument("--way", action="append", choices=[COLUMNS, OBJECTS, NATIVE],
                      help="this way only; may be given again")
    made.add_argument("--per-batch", action="append", type=number, metavar="N",
                      help="a size of a batch to try; may be given again. "
                      "Default: 250K, 1M, all events")
    made.add_argument("--batch", action="store_true", help="batch instead of streaming")
    made.add_argument("--folder", type=Path, help="keep the logs there, for another run")
    made.add_argument("--flag", action="append", default=[], metavar="FLAG",
                      help="one more option of headrace's runner, as --flag=--verify_columns")
    made.add_argument("--save", action="store_true",
                      help=f"write {RESULT.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    get_ready()
    workloads = chosen(made, args.what)
    alone = [each.full_name for each in workloads if each.by_columns is None]
    if alone:
        made.error(f"{', '.join(alone)}: asked of events, not of the columns of their log")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-columns-") as own:
        folder = args.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        results = _measure(args, workloads, folder)
    took = time.perf_counter() - start
    text = page(results, args, took)
    print(text)
    if args.save:
        settings = {k: v for k, v in vars(args).items() if k not in ("folder", "save")}
        cases = [case(workload, ways) for workload, ways in results]
        told = envelope(FORMAT, settings | {"seconds": round(took)}, today(), cases,
                        figures(results))  # fmt: skip
        RESULT.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        PAGE.write_text(text, encoding="utf-8")
    wrong = [way for _, ways in results for way in ways if not way.right]
    return exit_status([Ending.WRONG if wrong else Ending.RIGHT])


def _measure(
    args: Any, workloads: Sequence[Workload], folder: Path
) -> list[tuple[Workload, list[Way]]]:
    from headrace.runner import start_session

    session = start_session(f"local[{args.cores}]", "off")
    headrace, spark = choose("headrace", session), choose("spark", session)
    batches = args.per_batch or [PER_FILE, 1_000_000, args.events]
    sizes = Sizes(few=args.few, many=args.events, objects=args.object_events)
    flags = tuple(args.flag)
    results = []
    try:
        for workload in workloads:
            say(workload.full_name)
            ways = [
                Way(name=COLUMNS, system=headrace, flags=("--who_asks=headrace", *flags)),
                Way(name=OBJECTS, system=headrace, flags=("--columns=off",)),
                Way(name=NATIVE, system=spark),
            ]
            ways = [way for way in ways if not args.way or way.name in args.way]
            mode = Mode.BATCH if args.batch else Mode.STREAMING
            bench = LoggedWorkload(workload, folder, sizes, mode, args.cores)
            bench.prepare()
            bench.measure(ways, batches, args.rounds, say)
            for way in ways:
                say(f"  {line(way)}")
            results.append((workload, ways))
    finally:
        session.stop()
    return results


def line(way: Way) -> str:
    """Say what one way costs."""
    cost = way.cost()
    if cost is None:
        return f"{way.name}: WRONG"
    parts = ", ".join(f"{name} {s:.2f}" for name, s in zip(PARTS, cost.parts, strict=True))
    return (
        f"{way.name}: {_rate(cost)}, the latter with the fixed cost; "
        f"processor seconds per million: {parts}"
    )


def case(workload: Workload, ways: Sequence[Way]) -> dict[str, Any]:
    """Give everything as plain data."""
    return {
        "name": workload.full_name,
        "ways": [
            {
                "way": way.name, "per_batch": way.per_batch, "right": way.right,
                "tried": {str(size): seconds for size, seconds in way.tried.items()},
                "few": [asdict(s) for s in way.few], "many": [asdict(s) for s in way.many],
                "cost": None if (cost := way.cost()) is None else asdict(cost),
            }
            for way in ways
        ],
    }


def figures(results: Sequence[tuple[Workload, list[Way]]]) -> list[Figure]:
    """Give the rates in the lab's one form."""
    found = []
    for workload, ways in results:
        for way in ways:
            cost = way.cost()
            rates = [] if cost is None or cost.rate is None else [cost.rate]
            found.append(Figure.of_samples(
                way.name, "columns-spark", workload.full_name, "events/s", Better.HIGHER, rates,
                "" if cost is not None else "its answer was wrong",
            ))  # fmt: skip
    return found


def page(results: Sequence[tuple[Workload, list[Way]]], args: Any, took: float) -> str:
    """Lay the table out."""
    kind = "batch" if args.batch else "streaming"
    where = f"All runs: `results/{RESULT.name}`." if args.save else "No file of it is kept."
    lines = [
        "# Columns on Spark",
        "",
        f"Made on {today()} by `headrace lab run columns-spark --save` in {took / 60:.0f} minutes: "
        f"{kind}, {args.cores} cores, {args.rounds} rounds in turns, medians. All read the same "
        f"Parquet files, {PER_FILE:,} events each, and write Parquet; with columns headrace's own "
        "loop asks which are new (`--who_asks=headrace`). A rate is that of the events "
        f"between a run of {args.few:,} and one of {args.events:,} ({args.object_events:,} with "
        f"objects, and where {args.events:,} would take more than {PATIENCE_SECONDS:.0f} s), so "
        "without what a run costs at any size; the rate with it stands in brackets. Where the "
        f"larger run took less than {NOISE:.0%} longer, there is none. "
        f"{_sizes(args.per_batch)} Processor seconds are "
        "per million events: JVM + Python workers + driver. Answers of the runs of few events are "
        "checked by the oracle in every round, those of many in the last, where the answer is not "
        f"as long as the input. {where}",
        "",
        "| workload | columns | objects | Spark | of Spark | of objects | columns: s per M | "
        "objects: s per M | Spark: s per M | batch: columns, Spark |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workload, ways in results:
        by = {way.name: way for way in ways}
        cost = {name: way.cost() for name, way in by.items()}
        rates = [_rate(cost.get(name)) for name in (COLUMNS, OBJECTS, NATIVE)]
        times = [_parts(cost.get(name)) for name in (COLUMNS, OBJECTS, NATIVE)]
        ratios = [_ratio(cost.get(COLUMNS), cost.get(name)) for name in (NATIVE, OBJECTS)]
        sizes = ", ".join(f"{by[n].per_batch:,}" for n in (COLUMNS, NATIVE) if n in by)
        lines.append("| " + " | ".join([workload.full_name, *rates, *ratios, *times, sizes]) + " |")
    behind = [
        workload.full_name
        for workload, ways in results
        if _is_behind({way.name: way.cost() for way in ways})
    ]
    if behind:
        lines += ["", f"Below {BAR} of Spark's rate:", ""]
        lines += [f"* {name}: {WHY.get(name, 'nobody has found out why yet')}." for name in behind]
    return "\n".join(lines) + "\n"


def _is_behind(cost: Mapping[str, Any]) -> bool:
    ours, spark = cost.get(COLUMNS), cost.get(NATIVE)
    if not (ours and spark and ours.rate and spark.rate):
        return False
    return bool(ours.rate < BAR * spark.rate)


def _sizes(asked: Sequence[int] | None) -> str:
    """Say how large batches were.

    >>> _sizes([4_000_000])
    'Batches of all have up to 4,000,000 events: no other size was tried.'
    """
    if asked and len(asked) == 1:
        return f"Batches of all have up to {asked[0]:,} events: no other size was tried."
    return "Spark's own query and headrace run at their best size of a batch."


def _rate(cost: Any) -> str:
    if cost is None:
        return "-"
    between = "?" if cost.rate is None else f"{cost.rate / 1e6:.2f} M/s"
    return f"{between} ({cost.whole / 1e6:.2f})"


def _parts(cost: Any) -> str:
    return "-" if cost is None else " + ".join(f"{part:.2f}" for part in cost.parts)


def _ratio(ours: Any, other: Any) -> str:
    if ours is None or other is None or ours.rate is None or other.rate is None:
        return "-"
    return f"{ours.rate / other.rate:.2f}x"
