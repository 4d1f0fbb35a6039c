"""Lays the cells out as the page docs/verification.md, and keeps them in a file of lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.lab.ending import Ending
from headrace.lab.experiments.verify.conditions import Cell, Condition

_HEAD = """\
# Verification

`headrace lab run verify` (or `make verify`) runs every workload of `headrace list` on headrace
and compares all its rows with those of the [oracle](guide/workloads.md), an independent answer made
from the logged events. The conditions are those that could change an answer:

* **batch**: a bounded input, 2 shards;
* **1, 2, 4 shards**: a stream, on 2 cores;
* **killed**: a stream on 2 shards whose driver is killed with SIGKILL while it commits its second
  epoch; another driver goes on from its checkpoint, without anything that it kept elsewhere.
  The place in the commit differs from workload to workload: before the tasks, before the rows are
  written, after that but before they count, after they count.

In all of them events come out of order, inside groups of {group} that the source's own blocks cut.
Streams are cut into epochs so short that state crosses several. A run counts only if its answer has
rows, its events really were out of order, it had at least {epochs} epochs, and the driver died
where it was meant to. One workload has no answer that could be known beforehand: its rows are only
seen to break no rule, and the table says `unbroken`.

```
headrace lab run verify                           # everything: half an hour or more on 2 cores
headrace lab run verify nexmark:q4 windowed       # a workload, and a suite
headrace lab run verify --only kill               # one part: batch, shards or kill
headrace lab run verify --keep cells.jsonl        # go on where an earlier run ended
headrace lab run verify --page                    # also write this page
```

Exit status 2 means that an answer was wrong, or that a run failed.

## The last run

"""


def head(group: int, epochs: int) -> str:
    """Give what stands above the table."""
    return _HEAD.format(group=group, epochs=epochs)


def table(cells: Sequence[Cell]) -> str:
    """Lay out workload x condition in Markdown, the reasons of what is not right below."""
    conditions = [c for c in Condition if any(cell.condition is c for cell in cells)]
    lines = [
        "| workload | " + " | ".join(c.value for c in conditions) + " | events | rows | epochs |",
        "|---|" + "---|" * (len(conditions) + 3),
    ]
    for name in dict.fromkeys(cell.workload for cell in cells):
        own = {cell.condition: cell for cell in cells if cell.workload == name}
        told = [own[c].ending.value if c in own else "" for c in conditions]
        lines.append(
            f"| {name} | {' | '.join(told)} | {_range(c.events for c in own.values() if c.events)} "
            f"| {_range(c.rows for c in own.values() if c.rows)} "
            f"| {_range(c.epochs for c in own.values() if c.epochs is not None)} |"
        )
    notes = [
        f"* {cell.workload}, {cell.condition.value}: {cell.ending.value}: {cell.told}"
        for cell in cells
        if cell.ending is not Ending.RIGHT
    ]
    return "\n".join([*lines, "", *notes, *([""] if notes else [])])


def _range(numbers: Iterable[int | None]) -> str:
    found = sorted({number for number in numbers if number is not None})
    if not found:
        return "-"
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def plain(cell: Cell) -> dict[str, Any]:
    """Give a cell as plain data."""
    told = asdict(cell)
    told["condition"] = cell.condition.value
    told["finding"] = told.pop("ending").value  # files have been kept under this name
    return told


def keep(path: Path, cell: Cell) -> None:
    """Add a cell to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain(cell)) + "\n")


def kept(path: Path) -> dict[tuple[str, Condition], Cell]:
    """Read the cells of a file whose logs were good; of several for one place, the last."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        told["condition"] = Condition(told["condition"])
        cell = Cell(ending=Ending(told.pop("finding")), **told)
        if not cell.bad:
            found[cell.workload, cell.condition] = cell
    return found
