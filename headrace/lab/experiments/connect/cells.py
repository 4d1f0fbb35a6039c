"""What the experiment keeps of each test, query and kill: one cell. Frozen choices, no Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.lab.ending import Ending

SUITE, BATCH, STREAMS, KILLED, EPOCHS = "suite", "batch", "streams", "killed", "epochs"
#: What `--only` may ask for, and what the table says of each.
PARTS = {
    SUITE: "Beam's `FnApiRunnerTest`",
    BATCH: "NEXMark in batch, all rows against the oracle",
    STREAMS: "NEXMark q1, q3, q5, q7, q8, q11 as streams, all rows against the oracle",
    KILLED: "the same, the driver ended by SIGKILL in a commit and another one going on",
    EPOCHS: "epochs on our own loop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One test of the suite, or one query in one way."""

    part: str
    name: str
    ending: Ending
    told: str = ""  # the reason, if it is not right; else how the driver was killed, if it was
    seconds: float = 0.0
    rows: int = 0  # that were compared
    epochs: int | None = None  # None: not a stream


def plain(cell: Cell) -> dict[str, Any]:
    """Give a cell as plain data."""
    made = asdict(cell)
    made["finding"] = made.pop("ending").value  # files have been kept under this name
    return made


def keep(path: Path, cell: Cell) -> None:
    """Add a cell to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain(cell)) + "\n")


def kept(path: Path | None, parts: Collection[str]) -> list[Cell]:
    """Read the cells of some parts that were good; of several for one place, the last."""
    if path is None or not path.exists():
        return []
    found = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(text)
        cell = Cell(ending=Ending(told.pop("finding")), **told)
        if cell.part in parts and not cell.ending.bad:
            found[cell.part, cell.name] = cell
    return list(found.values())


def line(cell: Cell) -> str:
    """Say how a cell ended.

    >>> line(Cell(part="batch", name="q1", ending=Ending.RIGHT, rows=1200, seconds=2))
    'batch: q1: right, 1,200 rows, 2.0 s'
    """
    rows = f", {cell.rows:,} rows" if cell.rows else ""
    epochs = "" if cell.epochs is None else f", {cell.epochs} epochs"
    told = f" ({cell.told})" if cell.told else ""
    found = f"{cell.part}: {cell.name}: {cell.ending.value}"
    return f"{found}{rows}{epochs}, {cell.seconds:.1f} s{told}"


def table(cells: Sequence[Cell]) -> str:
    """Lay the parts out in Markdown; below them, all that is not right, with the reason."""
    lines = [
        "| on a Connect server | run | right | rows compared | epochs |", "|---|---|---|---|---|",
    ]
    for part, what in PARTS.items():
        own = [cell for cell in cells if cell.part == part]
        if not own:
            continue
        ran = [cell for cell in own if cell.ending is not Ending.NOT_THERE]
        right = sum(not cell.ending.bad for cell in ran)
        rows = sum(cell.rows for cell in ran)
        epochs = sum(cell.epochs or 0 for cell in ran)
        lines.append(
            f"| {what} | {len(ran)} | {right} | {f'{rows:,}' if rows else '-'} "
            f"| {f'{epochs:,}' if epochs else '-'} |"
        )
    notes = [
        f"* {PARTS[cell.part]}, {cell.name}: {cell.ending.value}: {cell.told}"
        for cell in cells
        if cell.ending is not Ending.RIGHT
    ]
    return "\n".join([*lines, "", *notes])
