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

from headrace.lab.commands import get_ready, say, takes_cores, takes_save, today
from headrace.lab.ending import exit_status

FORMAT = 2


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
    takes_cores(made)
    made.add_argument("--plot", type=Path, default=Path("soak.svg"), metavar="FILE",
                      help="where to draw. Default: soak.svg")
    takes_save(made, "soak")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    get_ready()
    from headrace.engine.spark.session import start_session

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
    found = judge(phases[0], phases[1])
    made = Table(title="the first phase, after its warm-up", title_justify="left")
    made.add_column("")
    for column in ("median", "per hour", "in this run", "allowed", "verdict"):
        made.add_column(column, justify="right")
    for each in found.trends:
        made.add_row(
            f"{each.name}, {each.unit}", f"{each.median:.3g}", f"{each.slope:+.3g}",
            f"{each.growth:+.3g}", f"{each.allowed:.3g}", "flat" if each.flat else "GROWS",
        )
    console = Console(width=110)
    console.print(made)
    told = [
        f"ten times longer lives: {found.state_ratio:.1f} times the state, epoch time "
        f"{found.epoch_ratio:.2f} times (bar <= {EPOCH_BAR})",
        f"load of the machine over a minute: {load:.1f} before, {os.getloadavg()[0]:.1f} after",
        *(f"WRONG: {complaint}" for complaint in found.wrong),
        "verdict: " + ("flat" if found.flat else "not flat"),
    ]
    for line in told:
        console.print(line, highlight=False, markup=False)
    args.plot.write_text(svg(charts(phases)), encoding="utf-8")
    console.print(f"drawn: {args.plot}", highlight=False, markup=False)
    if args.save:
        _save(args, phases, found, load)
    return exit_status([found.ending])


def _save(args: argparse.Namespace, phases: Any, found: Any, load: float) -> None:
    from headrace.lab.results.dated import envelope, save

    settings = {"minutes": args.minutes, "rate": args.rate, "trigger": args.trigger, "load": load}
    content = envelope(FORMAT, settings, today(), []) | {
        "phases": [asdict(phase) for phase in phases], "verdict": asdict(found),
    }
    print(f"saved as {save(content, 'soak')}")
