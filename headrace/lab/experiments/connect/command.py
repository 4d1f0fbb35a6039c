"""The command line: which parts, on which server; prints a line for each cell, then a table.

Ends with 0 when all is well, 1 when a bar was missed, 2 when an answer was wrong or a test failed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.lab.commands import get_ready, number, say, takes_save, today
from headrace.lab.ending import Ending, exit_status
from headrace.lab.experiments.connect.cells import (
    BATCH,
    EPOCHS,
    KILLED,
    PARTS,
    STREAMS,
    SUITE,
    Cell,
    keep,
    kept,
    line,
    plain,
    table,
)
from headrace.lab.experiments.streaming.figures import CaseResult

FORMAT = 1
#: So that each query crosses several epochs; `verify` gives more where they were too few.
EVENTS = 60_000


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run connect",
        description="Run Beam's runner suite and NEXMark on a server of Spark Connect, in batch, "
        "as streams and with the driver killed; compare all rows with the oracle; time epochs.",
    )
    made.add_argument("--address", metavar="sc://HOST:PORT",
                      help="of a server that sees this machine's disks. Default: one is started")
    made.add_argument("--only", action="append", choices=tuple(PARTS), default=None,
                      help="this part only; may be given again")
    made.add_argument("--tests", default="", metavar="NAME",
                      help="of the suite, the tests whose names begin so")
    made.add_argument("--events", type=number, default=EVENTS, metavar="N",
                      help=f"events of a query, as 100K. Default: {EVENTS:,}")
    made.add_argument("--epochs", type=number, default=40, metavar="N",
                      help="epochs of each run that is timed. Default: 40")
    made.add_argument("--rounds", type=number, default=3, metavar="N",
                      help="how often each of them is run, in turns. Default: 3")
    made.add_argument("--keep", type=Path, metavar="FILE",
                      help="write every result there at once, and do not run again what is there "
                      "and right: so a run that was interrupted goes on")
    takes_save(made, "connect")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    get_ready()
    parts = args.only or list(PARTS)
    with _session(args.address) as (session, address):
        cells, timed = _run(args, parts, session, address)
    if cells:
        print(table(cells))
    if timed is not None:
        from headrace.lab.experiments.streaming.report import show

        show([timed])
    if args.save:
        print(f"saved as {_saved(args, cells, timed)}")
    endings = [cell.ending for cell in cells]
    return exit_status(endings if timed is None else [*endings, timed.verdict])


def _run(
    args: argparse.Namespace, parts: Sequence[str], session: Any, address: str
) -> tuple[list[Cell], CaseResult | None]:
    """Run the parts: what is quick to fail first, times while nothing else runs on the server."""
    cells = kept(args.keep, parts)
    there = {(cell.part, cell.name) for cell in cells}

    def tell(cell: Cell) -> None:
        say(line(cell))
        if args.keep is not None:
            keep(args.keep, cell)

    timed = None
    if EPOCHS in parts:
        from headrace.lab.experiments.connect.epochs import measure

        timed = measure(session, say, epochs=args.epochs, rounds=args.rounds)
    if SUITE in parts:
        from headrace.lab.experiments.connect.suite import run_suite

        names = {name for part, name in there if part == SUITE}
        cells += run_suite(session, tell, args.tests, names)
    if {BATCH, STREAMS, KILLED} & set(parts):
        from headrace.lab.experiments.connect.queries import run_queries

        cells += run_queries(session, address, parts, args.events, tell, there)
    return cells, timed


@contextmanager
def _session(address: str | None) -> Iterator[tuple[Any, str]]:
    """Give a session on a server, and the server's address."""
    from headrace.lab.experiments.connect.server import connect_server, remote_session

    if address is None:
        with connect_server() as found, _session(found) as made:
            yield made
        return
    session = remote_session(address)
    try:
        yield session, address
    finally:
        session.stop()


def _saved(args: argparse.Namespace, cells: Sequence[Cell], timed: CaseResult | None) -> Any:
    from headrace.lab.experiments.streaming.report import record
    from headrace.lab.results.dated import save

    left_out = ("save", "address", "keep")  # they say where, not what
    settings = {name: value for name, value in vars(args).items() if name not in left_out}
    content = record([] if timed is None else [timed], settings, today())
    counts = {
        part: sum(cell.part == part and cell.ending is Ending.RIGHT for cell in cells)
        for part in PARTS
    }
    content |= {"format": FORMAT, "right": counts, "cells": [plain(cell) for cell in cells]}
    return save(content, "connect")
