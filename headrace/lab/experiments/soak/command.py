"""The command line of the soak: how long, how fast; prints the fit, draws, saves if asked to.

Ends with 0 when all is flat and fast enough, 1 when not, 2 when rows were lost.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.lab.commands import get_ready, say, today


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run soak",
        description="Run a streaming pipeline for long; see what grows.",
    )
    made.add_argument("--minutes", type=float, default=20.0, help="Default: 20")
    made.add_argument("--rate", type=int, default=2_000, help="rows per second. Default: 2000")
    made.add_argument("--trigger", type=float, default=1.0,
                      help="seconds between two epochs. Default: 1")
    made.add_argument("--cores", type=int, default=2, help="Default: 2")
    made.add_argument("--plot", type=Path, default=Path("soak.svg"), metavar="FILE",
                      help="where to draw. Default: soak.svg")
    made.add_argument("--save", action="store_true",
                      help="write results/DATE-soak.json with all samples")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    get_ready()
    from headrace.engine.session import start_session

    spark = start_session(f"local[{args.cores}]")
    spark.sparkContext.setLogLevel("OFF")
    try:
        return soak(spark, args)
    finally:
        spark.stop()


def soak(spark: Any, args: argparse.Namespace) -> int:
    """Run both phases on a session."""
    from headrace.lab.experiments.soak.plot import svg
    from headrace.lab.experiments.soak.run import EPOCH_BAR, charts, judge, plan, run_phase

    load = os.getloadavg()[0]
    phases = []
    names = ("short life", "ten times longer")
    for name, (seconds, life) in zip(names, plan(args.minutes, args.rate), strict=True):
        with tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder:
            phases.append(
                run_phase(
                    spark, name, life, seconds, Path(folder), trigger_seconds=args.trigger,
                    cores=args.cores,
                    say=say,
                )
            )
    verdict = judge(phases[0], phases[1])
    made = Table(title="the first phase, after its warm-up", title_justify="left")
    made.add_column("")
    for column in ("median", "per hour", "in this run", "allowed", "verdict"):
        made.add_column(column, justify="right")
    for found in verdict.trends:
        made.add_row(
            f"{found.name}, {found.unit}", f"{found.median:.3g}", f"{found.slope:+.3g}",
            f"{found.growth:+.3g}", f"{found.allowed:.3g}", "flat" if found.flat else "GROWS",
        )
    console = Console(width=110)
    console.print(made)
    told = [
        f"ten times longer lives: {verdict.state_ratio:.1f} times the state, epoch time "
        f"{verdict.epoch_ratio:.2f} times (bar <= {EPOCH_BAR})",
        f"load of the machine over a minute: {load:.1f} before, {os.getloadavg()[0]:.1f} after",
        *(f"WRONG: {complaint}" for complaint in verdict.wrong),
        "verdict: " + ("flat" if verdict.flat else "not flat"),
    ]
    for line in told:
        console.print(line, highlight=False, markup=False)
    args.plot.write_text(svg(charts(phases)), encoding="utf-8")
    console.print(f"drawn: {args.plot}", highlight=False, markup=False)
    if args.save:
        _save(args, phases, verdict, load)
    return 2 if verdict.wrong else 0 if verdict.cleared else 1


def _save(args: argparse.Namespace, phases: Any, verdict: Any, load: float) -> None:
    from headrace.lab.experiments.micro.report import save
    from headrace.lab.experiments.streaming.report import record

    settings = {"minutes": args.minutes, "rate": args.rate, "trigger": args.trigger, "load": load}
    content = record([], settings, today()) | {
        "phases": [asdict(phase) for phase in phases], "verdict": asdict(verdict),
    }
    print(f"saved as {save(content, 'soak')}")
