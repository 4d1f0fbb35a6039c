"""The command line: which workloads, in which conditions; prints a line per run, then a table.

Ends with 0 when every answer is right, 2 when one is wrong or a run failed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.lab.catalog import CATALOG
from headrace.lab.commands import (
    ROOT,
    chosen,
    get_ready,
    number,
    say,
    takes_save,
    takes_workloads,
    today,
)
from headrace.lab.experiments.verify.choices import EVENTS, GROUP, tries
from headrace.lab.experiments.verify.conditions import LEAST_EPOCHS, PARTS, Cell, Condition
from headrace.lab.experiments.verify.kill import GAPS
from headrace.lab.experiments.verify.runs import verify
from headrace.lab.experiments.verify.table import head, keep, kept, plain, table
from headrace.lab.results.dated import envelope, named, save
from headrace.lab.systems.headrace_system import HeadraceSystem
from headrace.lab.workload import Workload
from headrace.state.crash_points import Point

FORMAT = 1
PAGE = ROOT / "docs" / "verification.md"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run verify",
        description="Run workloads on headrace in batch, as streams with 1, 2 and 4 shards and "
        "events out of order, and with the driver killed once; compare all rows with the oracle.",
    )
    takes_workloads(made)
    made.add_argument("--events", type=number, default=EVENTS, metavar="N",
                      help="events of a run, as 100K; more where they make too few epochs. "
                      f"Default: {EVENTS:,}")
    made.add_argument("--only", action="append", choices=PARTS, default=None,
                      help="this part only; may be given again")
    made.add_argument("--keep", type=Path, metavar="FILE",
                      help="write every result there at once, and do not run again what is there "
                      "and right: so a run that was interrupted goes on")
    takes_save(made, "verification")
    made.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return made


def crash_of(workload: Workload) -> Point:
    """Give the place where a workload's driver is killed: they take turns along the catalogue."""
    names = [each.full_name for suite in CATALOG.suites for each in CATALOG.of_suite(suite)]
    return GAPS[names.index(workload.full_name) % len(GAPS)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    get_ready()
    cells, reused = _verify_all(args, chosen(made, args.what))
    text = table(cells)
    print(text)
    saved = None
    if args.save:
        told = envelope(FORMAT, _plain_arguments(args), today(), [plain(cell) for cell in cells])
        saved = save(told, "verification")
        print(f"saved as {saved}")
    if args.page:
        when = f"Made on {today()} on 2 cores. Rows and epochs are those of all runs in a line."
        if reused:
            when += f" {reused} of {len(cells)} results are those of earlier runs (`--keep`)."
        when += f" {named(saved)}"
        PAGE.write_text(head(GROUP, LEAST_EPOCHS) + when + "\n\n" + text)
    return 2 if any(cell.bad for cell in cells) else 0


def _plain_arguments(args: Any) -> dict[str, Any]:
    return {**vars(args), "keep": None if args.keep is None else args.keep.name}


def _verify_all(args: Any, workloads: Sequence[Workload]) -> tuple[list[Cell], int]:
    """Fill all cells, first those that take little time; tell how many were there already."""
    asked = {condition for part in args.only or PARTS for condition in PARTS[part]}
    there = {} if args.keep is None else kept(args.keep)
    todo = [
        (workload, condition)
        for killed in (False, True)
        for workload in workloads
        for condition in Condition
        if condition in asked and (condition is Condition.KILLED) is killed
    ]
    found: dict[tuple[str, Condition], Cell] = {}
    reused = 0
    system = HeadraceSystem(master="local[2]")
    try:
        for turn, (workload, condition) in enumerate(todo, start=1):
            place = workload.full_name, condition
            cell = there.get(place)
            if cell is None or cell.events not in (0, *tries(args.events)):
                cell = verify(
                    workload, condition, events=args.events, system=system,
                    crash=crash_of(workload),
                )
                if args.keep is not None:
                    keep(args.keep, cell)
            else:
                reused += 1
            found[place] = cell
            say(_line(turn, len(todo), cell))
    finally:
        system.stop()
    names = [workload.full_name for workload in workloads]
    return sorted(found.values(), key=lambda cell: names.index(cell.workload)), reused


def _line(turn: int, turns: int, cell: Cell) -> str:
    epochs = "" if cell.epochs is None else f", {cell.epochs} epochs"
    return (
        f"{turn} of {turns}: {cell.workload}, {cell.condition.value}: {cell.ending.value}, "
        f"{cell.rows:,} rows{epochs}, {cell.seconds:.1f} s{f' ({cell.told})' if cell.told else ''}"
    )
