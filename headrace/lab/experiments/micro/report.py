"""Shows figures as a table and gives them as plain data. Measures nothing."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from headrace.lab.commands import PLAIN_WIDTH, count
from headrace.lab.ending import Ending
from headrace.lab.experiments.micro.measure import Compared, Rate
from headrace.lab.results.dated import envelope

#: 2: with figures in the lab's one form, and its words for how a case ended.
FORMAT = 2
_COLOURS = {
    Ending.OK: "green", Ending.MISSED: "yellow", Ending.WRONG: "bold red", Ending.RIGHT: "dim"
}


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "-"
    if rate.low == rate.high:
        return count(rate.median)
    return f"{count(rate.median)} ({count(rate.low)} to {count(rate.high)})"


def _elements(figure: Compared) -> str:
    found = dict.fromkeys(count(s.elements) for s in figure.samples)
    return " / ".join(found)


def _bar(figure: Compared) -> str:
    case = figure.case
    if case.worker_limit_bytes is not None:
        return f"worker < {case.worker_limit_bytes / 1e9:.1f} GB"
    return "-" if case.bar is None else f">= {case.bar}"


def _cpu(rate: Rate | None) -> str:
    found = rate.cpu_seconds_per_million if rate else None
    return "-" if found is None else f"{found:.2f}"


def table(figures: Sequence[Compared], *, plain: bool) -> Table:
    """Lay the figures out."""
    made = Table(box=box.ASCII2 if plain else box.SIMPLE_HEAD, show_lines=False)
    made.add_column("case")
    for name in (
        "elements", "headrace /s (range)", "FnApiRunner /s (range)", "ratio", "bar", "verdict",
        "CPU s/M", "theirs", "worker peak",
    ):
        made.add_column(name, justify="right", no_wrap=True)
    for figure in figures:
        ratio, peak = figure.ratio, figure.peak_worker_bytes
        colour = _COLOURS[figure.verdict]
        made.add_row(
            figure.case.name, _elements(figure), _rate(figure.ours), _rate(figure.reference),
            "-" if ratio is None else f"{ratio:.2f}", _bar(figure),
            f"[{colour}]{figure.verdict.value}[/]", _cpu(figure.ours), _cpu(figure.reference),
            "-" if peak is None else f"{peak / 1e6:.0f} MB",
        )
    return made


def show(figures: Sequence[Compared], console: Console | None = None) -> None:
    """Print the table, then what each case is, then what was wrong."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=PLAIN_WIDTH, no_color=True)
    console.print(table(figures, plain=not console.is_terminal))
    for figure in figures:
        console.print(f"{figure.case.name}: {figure.case.what}", highlight=False, markup=False)
        for complaint in figure.complaints():
            console.print(
                f"WRONG: {complaint}", style="bold red", highlight=False, markup=False
            )


def record(figures: Sequence[Compared], settings: dict[str, Any], today: datetime.date) -> Any:
    """Give everything as plain data: raw samples, versions, and the machine without its name."""
    kept = [each for figure in figures for each in figure.figures()]
    return envelope(FORMAT, settings, today, [_case(figure) for figure in figures], kept)


def _case(figure: Compared) -> dict[str, Any]:
    return {
        "name": figure.case.name,
        "what": figure.case.what,
        "bar": figure.case.bar,
        "worker_limit_bytes": figure.case.worker_limit_bytes,
        "verdict": figure.verdict.value,
        "ratio": figure.ratio,
        "headrace": asdict(figure.ours) if figure.ours else None,
        "reference": asdict(figure.reference) if figure.reference else None,
        "peak_worker_bytes": figure.peak_worker_bytes,
        "samples": [asdict(sample) | {"right": sample.right} for sample in figure.samples],
    }
