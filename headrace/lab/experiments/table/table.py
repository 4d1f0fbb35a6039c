"""Lays the cells out: bars, a table as a page, and everything as plain data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.lab.commands import count
from headrace.lab.ending import Ending
from headrace.lab.experiments.table.runs import Cell
from headrace.lab.results.summary import Better, Figure
from headrace.lab.workload import Workload

#: Events per second that every workload must reach, and stateless ones.
EVERY, STATELESS = 50_000, 250_000
#: Or this share of Spark's own rate, for stateless ones.
SHARE_OF_NATIVE = 0.3
#: Times Beam's local runner.
OF_LOCAL = 3.0


#: Why a workload misses a bar, where a profile has told; stands below the table if it does.
REASONS = {
    "windowed join-by-arrival": (
        "Windows of the clock hold more pairs the faster events come: the rows grow with the "
        "square of the rate, and rows are what takes the time. Of about 1.5 us of processor time "
        "per row, 0.14 are the query's own loop and 0.03 Parquet; most of the rest is that a "
        "FlatMap which asks for its window hands its results on one by one, through Beam's own "
        "operations, as it does not run on batches."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One workload and its cells."""

    workload: Workload
    cells: tuple[Cell, ...]

    def rate(self, system: str) -> float | None:
        """Give a system's events per second, if its answer was right."""
        return next((c.rate for c in self.cells if c.system == system), None)

    def missed(self) -> list[str]:
        """Say which bars headrace misses here."""
        ours, native, local = self.rate("headrace"), self.rate("spark"), self.rate("direct")
        if all(cell.system != "headrace" for cell in self.cells):
            return []
        if ours is None:
            return ["no right answer"]
        found = []
        if ours < EVERY:
            found.append(f"below {count(EVERY)}/s")
        if self.workload.stateless:
            bar = min(STATELESS, SHARE_OF_NATIVE * native) if native else STATELESS
            if ours < bar:
                found.append(f"stateless, below {count(bar)}/s")
        if local is not None and ours < OF_LOCAL * local:
            found.append(f"{ours / local:.1f}x of Beam's local runner")
        return found


def page(lines: Sequence[Line], head: str, systems: Sequence[str]) -> str:
    """Write the table as Markdown."""
    titles = {name: name for name in systems} | {"spark": "native Spark", "direct": "Beam local"}
    rows = [
        "| workload | " + " | ".join(titles[s] for s in systems) + " | of Spark | of Beam | bars |",
        "|---|" + "---|" * len(systems) + "---|---|---|",
    ]
    for line in lines:
        told = {cell.system: _told(cell) for cell in line.cells}
        rows.append(
            f"| {line.workload.full_name} | "
            + " | ".join(told.get(s, "-") for s in systems)
            + f" | {_ratio(line, 'spark')} | {_ratio(line, 'direct')} "
            + f"| {'; '.join(line.missed()) or 'held'} |"
        )
    notes = [
        f"* {line.workload.full_name}, {cell.system}: {cell.told}"
        for line in lines
        for cell in line.cells
        if cell.verdict is not Ending.RIGHT
    ]
    notes += [_reason(line) for line in lines if line.missed()]
    return "\n".join([head, "", *rows, "", *notes, ""])


def _reason(line: Line) -> str:
    told = [f"* {line.workload.full_name}, bars: {'; '.join(line.missed())}."]
    for cell in line.cells:
        if cell.rate is not None and cell.rows and cell.seconds:
            rows = f"{cell.rows:,} rows, {count(cell.rows / cell.seconds)} rows/s"
            told.append(f"{cell.system} gave {rows}.")
    return " ".join([*told, REASONS.get(line.workload.full_name, "No profile has told why.")])


def _told(cell: Cell) -> str:
    if cell.rate is None:
        return cell.verdict.value
    fewer = "" if cell.events == cell.asked else f" ({cell.events:,} events)"
    return f"{cell.verdict.value}, {count(cell.rate)}/s{fewer}"


def _ratio(line: Line, system: str) -> str:
    ours, other = line.rate("headrace"), line.rate(system)
    return "-" if ours is None or other is None else f"{ours / other:.2f}x"


def record(lines: Sequence[Line]) -> list[Any]:
    """Give everything as plain data."""
    return [
        {
            "name": line.workload.full_name,
            "stateless": line.workload.stateless,
            "missed": line.missed(),
            "cells": [_plain(cell) | {"rate": cell.rate} for cell in line.cells],
        }
        for line in lines
    ]


def figures(lines: Sequence[Line]) -> list[Figure]:
    """Give the rates in the lab's one form."""
    return [
        Figure.of_samples(
            cell.system, "table", line.workload.full_name, "events/s", Better.HIGHER,
            [] if cell.rate is None else [cell.rate], "" if cell.verdict.counts else cell.told,
        )
        for line in lines
        for cell in line.cells
    ]


def _plain(cell: Cell) -> dict[str, Any]:
    return asdict(cell) | {"verdict": cell.verdict.value}


def keep(path: Path, workload: str, cell: Cell) -> None:
    """Add a cell to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"workload": workload, **_plain(cell)}) + "\n")


def kept(path: Path) -> dict[tuple[str, str], Cell]:
    """Read the cells of a file that need not be run again; of several for one place, the last."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        name = told.pop("workload")
        cell = Cell(**told | {"verdict": Ending(told["verdict"])})
        if cell.verdict.counts or cell.verdict is Ending.REFUSED:
            found[name, cell.system] = cell
    return found
