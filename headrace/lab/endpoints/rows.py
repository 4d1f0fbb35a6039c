"""Rows of answers, kept: in memory, in folders of Parquet files, as JSON lines.

Says where the rows of a run are and reads them back in the order of the workload's columns. Knows
nothing of who wrote them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow.dataset as ds

from headrace.lab.workload import Column, Row


class Rows(Protocol):
    """The rows of a run, wherever they are."""

    def read(self, columns: Sequence[Column]) -> list[Row]:
        """Give all rows."""


@dataclass(frozen=True, slots=True)
class RowsInMemory:
    """Rows that are here already."""

    rows: tuple[Row, ...]

    def read(self, columns: Sequence[Column]) -> list[Row]:
        """Give all rows."""
        del columns
        return list(self.rows)


@dataclass(frozen=True, slots=True)
class RowsInTables:
    """Rows that are here as columns."""

    tables: tuple[Any, ...]  # of Arrow's

    def read(self, columns: Sequence[Column]) -> list[Row]:
        """Give all rows."""
        names = [column.name for column in columns]
        return [
            row for table in self.tables
            for row in zip(*(table[name].to_pylist() for name in names), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class RowsInParquet:
    """Rows in Parquet files, in folders by epoch; no folder at all if there are none."""

    folder: str

    def read(self, columns: Sequence[Column]) -> list[Row]:
        """Give all rows."""
        top = Path(self.folder)
        files = sorted(
            str(path)
            for path in top.rglob("*.parquet")
            if not any(part.startswith(("_", ".")) for part in path.relative_to(top).parts)
        )
        if not files:
            return []
        table = ds.dataset(files, format="parquet").to_table([column.name for column in columns])
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def write_json_lines(path: str | Path, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows to a file, each a JSON object by the names of the columns; all or nothing."""
    names = [column.name for column in columns]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with hidden.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
                file.write("\n")
        hidden.replace(target)
    finally:
        hidden.unlink(missing_ok=True)
