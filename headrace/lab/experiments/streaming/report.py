"""Shows results as a table and gives them as plain data. Measures nothing."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from headrace.lab.commands import PLAIN_WIDTH, count
from headrace.lab.experiments.streaming.figures import CaseResult, Line
from headrace.lab.results.dated import envelope

#: 2: with figures in the lab's one form, and its words for how a case ended.
FORMAT = 2


def amount(value: float) -> str:
    """Write a figure with as many digits as it deserves.

    >>> [amount(x) for x in (1_360_000, 152.4, 3.2184)]
    ['1.36 M', '152', '3.22']
    """
    if value >= 1_000:
        return count(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(outcome: CaseResult, *, plain: bool) -> Table:
    """Lay one case out."""
    made = Table(
        box=box.ASCII2 if plain else box.SIMPLE_HEAD, title=f"{outcome.case}: {outcome.what}",
        title_justify="left",
    )
    made.add_column("")
    for name in ("median", "range", "samples"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("unit", no_wrap=True)
    made.add_column("of which")
    for line in outcome.lines:
        made.add_row(
            line.name, amount(line.median),
            f"{amount(min(line.samples))} to {amount(max(line.samples))}",
            str(len(line.samples)), line.unit, _details(line),
        )
    return made


def _details(line: Line) -> str:
    return ", ".join(f"{name} {amount(value)}" for name, value in line.details.items())


def show(outcomes: Sequence[CaseResult], console: Console | None = None) -> None:
    """Print a table for each case, its bars, and what was wrong."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=PLAIN_WIDTH, no_color=True)
    for outcome in outcomes:
        console.print(table(outcome, plain=not console.is_terminal))
        for bar in outcome.bars:
            sign = "<=" if bar.at_most else ">="
            state = "ok" if bar.cleared else "MISSED"
            console.print(
                f"{bar.what}: {bar.value:.2f} (bar {sign} {bar.limit}) {state}",
                highlight=False, markup=False,
            )
        for complaint in outcome.wrong:
            console.print(f"WRONG: {complaint}", style="bold red", highlight=False, markup=False)
        before, after = outcome.load
        console.print(
            f"load of the machine over a minute: {before:.1f} before, {after:.1f} after\n",
            highlight=False, markup=False,
        )


def record(outcomes: Sequence[CaseResult], settings: dict[str, Any], today: datetime.date) -> Any:
    """Give everything as plain data: raw samples, versions, and the machine without its name."""
    figures = [figure for outcome in outcomes for figure in outcome.figures()]
    return envelope(FORMAT, settings, today, [_case(outcome) for outcome in outcomes], figures)


def _case(outcome: CaseResult) -> dict[str, Any]:
    return asdict(outcome) | {
        "verdict": outcome.verdict.value,
        "lines": [
            asdict(line) | {"median": line.median, "details": dict(line.details)}
            for line in outcome.lines
        ],
        "bars": [asdict(bar) | {"cleared": bar.cleared} for bar in outcome.bars],
    }
