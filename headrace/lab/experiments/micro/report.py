"""Shows figures as a table and writes them to a dated file. Measures nothing."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import headrace
from headrace.lab.commands import ROOT
from headrace.lab.experiments.micro.measure import Figure, Rate, Verdict

#: Wide enough for the table where the terminal's width is not known.
PLAIN_WIDTH = 170
FORMAT = 1
RESULTS = ROOT / "results"
PACKAGES = ("apache-beam", "pyspark", "pyarrow", "numpy", "pandas")
_COLOURS = {
    Verdict.OK: "green", Verdict.MISSED: "yellow", Verdict.WRONG: "bold red", Verdict.NO_BAR: "dim"
}


def count(number: float) -> str:
    """Write a number of elements as people say it: 850, 20.0 K, 1.36 M.

    >>> [count(n) for n in (850, 20_000, 1_361_000)]
    ['850', '20.0 K', '1.36 M']
    """
    if number >= 1e6:
        return f"{number / 1e6:.2f} M"
    return f"{number / 1e3:.1f} K" if number >= 1e3 else f"{number:.0f}"


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "-"
    if rate.low == rate.high:
        return count(rate.median)
    return f"{count(rate.median)} ({count(rate.low)} to {count(rate.high)})"


def _elements(figure: Figure) -> str:
    found = dict.fromkeys(count(s.elements) for s in figure.samples)
    return " / ".join(found)


def _bar(figure: Figure) -> str:
    case = figure.case
    if case.worker_limit_bytes is not None:
        return f"worker < {case.worker_limit_bytes / 1e9:.1f} GB"
    return "-" if case.bar is None else f">= {case.bar}"


def _cpu(rate: Rate | None) -> str:
    found = rate.cpu_seconds_per_million if rate else None
    return "-" if found is None else f"{found:.2f}"


def table(figures: Sequence[Figure], *, plain: bool) -> Table:
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


def show(figures: Sequence[Figure], console: Console | None = None) -> None:
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


def record(figures: Sequence[Figure], settings: dict[str, Any], today: datetime.date) -> Any:
    """Give everything as plain data: raw samples, versions, and the machine without its name."""
    return envelope(FORMAT, settings, today, [_case(figure) for figure in figures])


def envelope(
    number: int, settings: dict[str, Any], today: datetime.date, cases: list[Any]
) -> dict[str, Any]:
    """Put cases into what every file of results says of its run; `number` is the file's format."""
    return {
        "format": number,
        "date": today.isoformat(),
        "versions": {
            "headrace": headrace.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": machine(),
        "settings": settings,
        "cases": cases,
    }


def _case(figure: Figure) -> dict[str, Any]:
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


def machine() -> dict[str, Any]:
    """Give what matters about the machine for a rate."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)


def save(content: Any, kind: str, folder: Path = RESULTS) -> Path:
    """Write a new dated file; one that is there is never written again."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2) + "\n"
    number = 1
    while True:
        path = folder / f"{content['date']}-{kind}{'' if number == 1 else f'-{number}'}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            number += 1
            continue
        return path
