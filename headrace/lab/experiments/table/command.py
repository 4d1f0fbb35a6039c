"""The command line: which workloads, on which systems, how large; prints and writes a table.

Ends with 0 when all is well, 1 when a bar was missed, 2 when an answer was wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.lab.commands import (
    ROOT,
    chosen,
    get_ready,
    number,
    say,
    takes_cores,
    takes_save,
    takes_workloads,
    today,
)
from headrace.lab.ending import Ending, exit_status
from headrace.lab.experiments.table.runs import Cell, measure
from headrace.lab.experiments.table.table import Line, figures, keep, kept, page, record
from headrace.lab.results.dated import envelope, named, save
from headrace.lab.systems.choose import AT_HAND, SYSTEMS, choose
from headrace.lab.systems.system import System
from headrace.lab.workload import Mode, Workload

FORMAT = 1
#: What stands above the table on its page; the numbers below it are those of one run.
PAGE = ROOT / "docs" / "workloads-table.md"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run table",
        description="Run workloads on headrace, on Spark alone and on Beam's local runner, check "
        "every answer, and lay the rates out in a table.",
    )
    takes_workloads(made)
    made.add_argument("--system", action="append", choices=SYSTEMS, default=None,
                      help="this system only; may be given again. Default: "
                      f"{', '.join(AT_HAND)}")
    made.add_argument("--events", type=number, default=1_000_000, metavar="N",
                      help="events of a run, as 200K or 1M. Default: 1M")
    made.add_argument("--direct-events", type=number, default=50_000, metavar="N",
                      help="the same for Beam's local runner, which is slow. Default: 50K")
    takes_cores(made)
    made.add_argument("--batch", action="store_true", help="batch instead of streaming")
    made.add_argument("--patience", type=number, default=60, metavar="SECONDS",
                      help="give systems other than headrace fewer events, 100K or 20K, where a "
                      "run would take longer by all appearances. Default: 60")
    made.add_argument("--keep", type=Path, metavar="FILE",
                      help="write every result there at once, and do not run again what is there "
                      "and right, of as many events: so a run that was interrupted goes on")
    takes_save(made, "workloads")
    made.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    get_ready()
    mode = Mode.BATCH if args.batch else Mode.STREAMING
    workloads = [each for each in chosen(made, args.what) if mode in each.modes]
    lines, reused = _measure_all(args, workloads)
    saved = None
    if args.save:
        settings = vars(args) | {"keep": None if args.keep is None else args.keep.name}
        told = envelope(FORMAT, settings, today(), record(lines), figures(lines))
        saved = save(told, f"workloads-{mode.value}")
        print(f"saved as {saved}")
    head = f"{_head(args, mode, reused)} {named(saved)}"
    text = page(lines, head, args.system or AT_HAND)
    print(text)
    if args.page:
        PAGE.write_text(text)
    return _status(lines)


def _measure_all(args: Any, workloads: Sequence[Workload]) -> tuple[list[Line], int]:
    """Fill all cells; tell how many were there already."""
    # One session for both systems that run on Spark: what differs is only who plans.
    from headrace.runner import start_session

    session = start_session(f"local[{args.cores}]")
    systems: list[System] = [choose(name, session) for name in args.system or AT_HAND]
    there = {} if args.keep is None else kept(args.keep)
    lines, reused = [], 0
    try:
        for turn, workload in enumerate(workloads, start=1):
            cells: list[Cell] = []
            for system in systems:
                cell = there.get((workload.full_name, system.name))
                if cell is None or (cell.asked, cell.mode) != _asked(args, system):
                    cell = _measure(args, workload, system)
                    if args.keep is not None:
                        keep(args.keep, workload.full_name, cell)
                else:
                    reused += 1
                cells.append(cell)
                rate = f" ({cell.told})" if cell.rate is None else f", {cell.rate:,.0f} events/s"
                name = f"{workload.full_name} on {system.name}"
                say(f"{turn} of {len(workloads)}: {name}: {cell.verdict.value}{rate}")
            lines.append(Line(workload=workload, cells=tuple(cells)))
    finally:
        for system in systems:
            system.stop()
        session.stop()
    return lines, reused


def _asked(args: Any, system: System) -> tuple[int, str]:
    """How many events a system is asked to run, and how."""
    events = args.direct_events if system.name == "direct" else args.events
    return events, (Mode.BATCH if args.batch else Mode.STREAMING).value


def _measure(args: Any, workload: Workload, system: System) -> Cell:
    events, mode = _asked(args, system)
    return measure(
        workload, system, mode=Mode(mode), shards=args.cores, events=events,
        patience=None if system.name == "headrace" else args.patience, say=say,
    )


def _head(args: Any, mode: Mode, reused: int) -> str:
    earlier = f" {reused} cells are those of earlier runs (`--keep`)." if reused else ""
    return (
        f"# Workloads side by side\n\nMade on {today()} by `headrace lab run table`: "
        f"{mode.value}, {args.cores} cores, {args.events:,} events ({args.direct_events:,} on "
        "Beam's local runner, which is FnApiRunner), fewer where a cell says so; every answer "
        "checked by the oracle; a wrong answer voids its rate. headrace makes the events itself "
        "and keeps its state in a checkpoint; native Spark reads them from Parquet files that were "
        "written before. All rows are written to files. Time runs from the start of the pipeline "
        f"to its end; a small run goes before each.{earlier}"
    )


def _status(lines: Sequence[Line]) -> int:
    missed = [Ending.MISSED for line in lines if line.missed()]
    return exit_status([*missed, *(cell.verdict for line in lines for cell in line.cells)])
