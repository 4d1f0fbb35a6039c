"""The command line: which workloads, on which systems, how large; prints and writes a table.

Ends with 0 when all is well, 1 when a bar was missed, 2 when an answer was wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import number
from benchmarks.report import envelope
from benchmarks.workloads.runs import Cell, measure
from benchmarks.workloads.table import Line, page, record
from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG
from headrace.lab.systems.choose import SYSTEMS, choose
from headrace.lab.systems.system import System
from headrace.lab.workload import Mode, Workload

ROOT = Path(__file__).resolve().parent.parent.parent
FORMAT = 1
#: What stands above the table on its page; the numbers below it are those of one run.
PAGE = ROOT / "docs" / "workloads-table.md"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.workloads",
        description="Run workloads on headrace, on Spark alone and on Beam's local runner, check "
        "every answer, and lay the rates out in a table.",
    )
    made.add_argument("what", nargs="*", metavar="SUITE[:NAME]",
                      help="as nexmark, or nexmark:q5; all workloads if none is given")
    made.add_argument("--system", action="append", choices=SYSTEMS, default=None,
                      help="this system only; may be given again")
    made.add_argument("--events", type=number, default=1_000_000, metavar="N",
                      help="events of a run, as 200K or 1M. Default: 1M")
    made.add_argument("--direct-events", type=number, default=50_000, metavar="N",
                      help="the same for Beam's local runner, which is slow. Default: 50K")
    made.add_argument("--cores", type=number, default=2, metavar="N",
                      help="Spark's cores, and shards. Default: 2")
    made.add_argument("--batch", action="store_true", help="batch instead of streaming")
    made.add_argument("--cold", action="store_true", help="no small run before the measured one")
    made.add_argument("--save", action="store_true",
                      help="write results/DATE-workloads.json with everything")
    made.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return made


def chosen(what: Sequence[str], mode: Mode) -> list[Workload]:
    """Find the workloads that are asked for."""
    found: list[Workload] = []
    for name in what or CATALOG.suites:
        suite, _, one = name.partition(":")
        found += [CATALOG.workload(suite, one)] if one else CATALOG.of_suite(suite)
    return [workload for workload in found if mode in workload.modes]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    logging.getLogger().setLevel(logging.ERROR)  # Beam warns about packages no workload needs
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    mode = Mode.BATCH if args.batch else Mode.STREAMING
    try:
        workloads = chosen(args.what, mode)
    except OptionError as error:
        made.error(str(error))
    lines = _measure_all(args, workloads, mode)
    systems = args.system or SYSTEMS
    today = datetime.datetime.now(datetime.timezone.utc).date()
    text = page(lines, _head(args, mode, today), systems)
    print(text)
    if args.save:
        target = ROOT / "results" / f"{today}-workloads{'-batch' if args.batch else ''}.json"
        told = envelope(FORMAT, vars(args), today, record(lines))
        target.write_text(json.dumps(told, indent=1) + "\n")
    if args.page:
        PAGE.write_text(text)
    return _status(lines)


def _measure_all(args: Any, workloads: Sequence[Workload], mode: Mode) -> list[Line]:
    # One session for both systems that run on Spark: what differs is only who plans.
    from headrace.runner import start_session

    session = start_session(f"local[{args.cores}]")
    systems: list[System] = [choose(name, session) for name in args.system or SYSTEMS]
    lines = []
    try:
        for turn, workload in enumerate(workloads, start=1):
            cells: list[Cell] = []
            for system in systems:
                cell = measure(
                    workload, system, mode=mode, shards=args.cores, warm=not args.cold, say=_say,
                    events=args.direct_events if system.name == "direct" else args.events,
                )
                cells.append(cell)
                rate = "" if cell.rate is None else f", {cell.rate:,.0f} events/s"
                _say(
                    f"{turn} of {len(workloads)}: {workload.full_name} on {system.name}: "
                    f"{cell.verdict}{rate}" + (f" ({cell.told})" if cell.rate is None else "")
                )
            lines.append(Line(workload=workload, cells=tuple(cells)))
    finally:
        for system in systems:
            system.stop()
        session.stop()
    return lines


def _head(args: Any, mode: Mode, today: datetime.date) -> str:
    return (
        f"# Workloads side by side\n\nMade on {today} by `python -m benchmarks.workloads`: "
        f"{mode.value}, {args.cores} cores, {args.events:,} events ({args.direct_events:,} on "
        "Beam's local runner), every answer checked by the oracle; a wrong answer voids its rate. "
        "headrace makes the events itself and keeps its state in a checkpoint; native Spark reads "
        "them from Parquet files that were written before. All rows are written to files."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _status(lines: Sequence[Line]) -> int:
    if any(cell.verdict in ("WRONG", "failed") for line in lines for cell in line.cells):
        return 2
    return 1 if any(line.missed() for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
