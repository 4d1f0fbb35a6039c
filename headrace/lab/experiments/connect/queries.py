"""NEXMark on a Connect server: in batch, as streams, and by a driver whose predecessor was killed.

Takes a session and its address, gives cells; what is right, `verify` says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.lab.catalog import CATALOG
from headrace.lab.experiments.connect.cells import BATCH, KILLED, STREAMS, Cell
from headrace.lab.experiments.verify.child import MASTER
from headrace.lab.experiments.verify.conditions import Condition
from headrace.lab.experiments.verify.kill import GAPS
from headrace.lab.experiments.verify.runs import verify
from headrace.lab.systems.headrace_system import HeadraceSystem
from headrace.state.crash_points import Point

#: Those that run as streams.
STREAMED = ("q1", "q3", "q5", "q7", "q8", "q11")


def batch_queries() -> list[str]:
    """Name all queries of NEXMark, with their variants."""
    return [workload.name for workload in CATALOG.of_suite("nexmark")]


def todo(parts: Sequence[str]) -> list[tuple[str, str, Point]]:
    """Give what is run: part, query, and where the driver is killed, gap by gap in turns."""
    wanted = {
        BATCH: batch_queries(), STREAMS: list(STREAMED), KILLED: list(STREAMED),
    }
    return [
        (part, query, GAPS[at % len(GAPS)])
        for part, queries in wanted.items() if part in parts
        for at, query in enumerate(queries)
    ]


def run_queries(
    session: Any, address: str, parts: Sequence[str], events: int, tell: Callable[[Cell], None],
    there: Collection[tuple[str, str]] = (),
) -> list[Cell]:
    """Run the queries of the parts, and tell of each as it ends; not those that are there."""
    system = HeadraceSystem(session)
    conditions = {
        BATCH: Condition.BATCH, STREAMS: Condition.TWO_SHARDS, KILLED: Condition.KILLED,
    }
    cells = []
    with _master(address):
        for part, query, gap in todo(parts):
            if (part, query) in there:
                continue
            found = verify(
                CATALOG.workload("nexmark", query), conditions[part], events=events,
                system=system, crash=gap,
            )
            cell = Cell(
                part=part, name=query, ending=found.ending, told=found.told,
                seconds=found.seconds, rows=found.rows, epochs=found.epochs,
            )
            cells.append(cell)
            tell(cell)
    return cells


@contextmanager
def _master(address: str) -> Iterator[None]:
    """Let drivers in processes of their own run on the server too."""
    before = os.environ.get(MASTER)
    os.environ[MASTER] = address
    try:
        yield
    finally:
        if before is None:
            del os.environ[MASTER]
        else:
            os.environ[MASTER] = before
