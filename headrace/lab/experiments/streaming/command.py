"""The command line: which cases, how large, how often; prints tables, saves if asked to.

Ends with 0 when all is well, 1 when a bar was missed, 2 when an answer was wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from headrace.lab.commands import get_ready, number, say, takes_cores, takes_save, today
from headrace.lab.ending import exit_status
from headrace.lab.experiments.streaming.bed import Bed
from headrace.lab.experiments.streaming.figures import CaseResult

#: Run when no case is named.
USUAL = ("epoch", "ownloop", "fileepoch", "throughput", "sliding", "restore", "pending")
#: Bad data at full size takes longer than all others together, so it is run by name only.
CASES = (*USUAL, "hotkey", "windows", "hotcombine")


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run streaming", description="Measure streaming on headrace."
    )
    made.add_argument("case", nargs="*", metavar="CASE",
                      help=f"one or more of {', '.join(CASES)}; "
                      "all but the last three if none is given")
    made.add_argument("--rounds", type=number, default=3, metavar="N",
                      help="how often each variant is run, in turns. Default: 3")
    made.add_argument("--epochs", type=number, default=40, metavar="N",
                      help="epoch, ownloop, fileepoch: epochs of each run, such as 300 for a "
                      "closed loop that can be held against papers (fileepoch: at most 90). "
                      "Default: 40")
    made.add_argument("--rows", type=number, default=1_000_000, metavar="N",
                      help="throughput, sliding: rows, as 200K or 1M. Default: 1M")
    made.add_argument("--keys", type=number, default=1_000_000, metavar="N",
                      help="restore: keys of state. Default: 1M")
    made.add_argument("--scale", type=float, default=1.0, metavar="X",
                      help="pending: share of 100 K, 300 K and 1 M elements. Default: 1")
    made.add_argument("--elements", type=number, default=5_000_000, metavar="N",
                      help="hotkey, hotcombine: elements, half of them with one key. Default: 5M")
    made.add_argument("--windows", type=number, default=1_000_000, metavar="N",
                      help="windows: how many are open at once. Default: 1M")
    takes_cores(made)
    takes_save(made, "streaming")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    unknown = [case for case in args.case if case not in CASES]
    if unknown:
        made.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    get_ready()
    outcomes = _measure_all(args, args.case or USUAL)
    if args.save:
        from headrace.lab.experiments.streaming.report import record
        from headrace.lab.results.dated import save

        settings = {name: value for name, value in vars(args).items() if name != "save"}
        print(f"saved as {save(record(outcomes, settings, today()), 'streaming')}")
    return exit_status(outcome.verdict for outcome in outcomes)


def _measure_all(args: argparse.Namespace, cases: Sequence[str]) -> list[CaseResult]:
    from headrace.lab.experiments.streaming.report import show

    spark = session(args.cores) if set(cases) - {"pending"} else None
    bed = Bed(spark=spark, cores=args.cores, say=say)
    outcomes: list[CaseResult] = []
    try:
        for case in cases:
            outcomes.append(_measures(args)[case](bed))
    finally:
        if outcomes:  # an interrupted run still shows what it has
            show(outcomes)
        if spark is not None:
            spark.stop()
    return outcomes


def _measures(args: argparse.Namespace) -> dict[str, Callable[[Bed], CaseResult]]:
    from headrace.lab.experiments.streaming import (
        epoch,
        fileepoch,
        hotcombine,
        hotkey,
        ownloop,
        pending,
        restore,
        sliding,
        throughput,
        windows,
    )

    rounds = args.rounds
    return {
        "epoch": lambda bed: epoch.measure(bed, epochs=args.epochs, rounds=rounds),
        "ownloop": lambda bed: ownloop.measure(bed, epochs=args.epochs, rounds=rounds),
        "fileepoch": lambda bed: fileepoch.measure(bed, epochs=args.epochs, rounds=rounds),
        "throughput": lambda bed: throughput.measure(bed, rows=args.rows, rounds=rounds),
        "sliding": lambda bed: sliding.measure(bed, elements=args.rows, rounds=rounds),
        "restore": lambda bed: restore.measure(bed, keys=args.keys, rounds=rounds),
        "pending": lambda bed: pending.measure(bed, scale=args.scale, rounds=rounds),
        "hotkey": lambda bed: hotkey.measure(bed, rows=args.elements, rounds=rounds),
        "hotcombine": lambda bed: hotcombine.measure(bed, elements=args.elements, rounds=rounds),
        "windows": lambda bed: windows.measure(bed, windows=args.windows, rounds=rounds),
    }


def session(cores: int) -> Any:
    """Start Spark as headrace does; both sides use it."""
    from headrace.engine.spark.session import start_session

    spark = start_session(f"local[{cores}]")
    spark.conf.set("spark.sql.shuffle.partitions", str(cores))
    spark.sparkContext.setLogLevel("OFF")  # queries are stopped in mid-flight, and Spark says so
    return spark
