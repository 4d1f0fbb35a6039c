"""Drains that take DataFrames, one per epoch: those of headrace and of Spark's own queries.

A drain may be handed the rows of the same epoch twice, after a failure. What is kept in memory or
in files is then replaced; what was printed stays printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.lab.endpoints.local_drains import text_of
from headrace.lab.endpoints.names import Drain, DrainKind
from headrace.lab.endpoints.rows import Rows, RowsInMemory, RowsInParquet
from headrace.lab.workload import Column, Row


def schema_of(columns: Sequence[Column]) -> str:
    """Give the schema of an answer in Spark's words.

    >>> from headrace.lab.workload import Kind
    >>> schema_of([Column("price", Kind.DOUBLE), Column("count", Kind.LONG)])
    '`price` double, `count` long'
    """
    return ", ".join(f"`{column.name}` {column.kind.value}" for column in columns)


class FrameDrain:
    """One drain for one run.

    Args:
        drain: which.
        folder: where the drain `file` keeps its rows.
    """

    def __init__(self, drain: Drain, folder: Path) -> None:
        self._kind = drain.kind
        self._memory: dict[int, list[Row]] = {}
        self._times: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self.path: str | None = None  # of Parquet files by epoch; None: rows are not written
        if drain.kind is DrainKind.FILE:
            self.path = str(folder)
        elif drain.kind is DrainKind.SPARK:
            self.path = drain.path

    def take(self, frame: Any, epoch: int) -> None:
        """Take the rows of an epoch."""
        match self._kind:
            case DrainKind.FILE | DrainKind.SPARK:
                frame.write.mode("overwrite").parquet(f"{self.path}/epoch={epoch:08d}")
            case DrainKind.VECTOR:
                self._memory[epoch] = [tuple(row) for row in frame.collect()]
                self._times[epoch] = time.time()
            case DrainKind.CONSOLE:
                rows = frame.collect()
                self._counts[epoch] = len(rows)
                for row in rows:
                    print(text_of(row), file=sys.stdout)
            case DrainKind.METER:
                self._counts[epoch] = frame.count()
                if self._counts[epoch]:
                    print(f"epoch {epoch}: {self._counts[epoch]:,} rows", file=sys.stdout)
            case DrainKind.NULL:
                self._counts[epoch] = frame.count()

    @property
    def count(self) -> int | None:
        """How many rows were taken; None: they are in files and were not counted."""
        if self.path is not None:
            return None
        return sum(map(len, self._memory.values())) + sum(self._counts.values())

    def stamped(self) -> tuple[tuple[float, tuple[Row, ...]], ...]:
        """Give the rows of a drain in memory with the times at which their epochs were taken."""
        return tuple((self._times[epoch], tuple(rows)) for epoch, rows in self._memory.items())

    def rows(self) -> Rows | None:
        """Give the rows; None: this drain keeps none."""
        if self.path is not None:
            return RowsInParquet(self.path)
        if self._kind is DrainKind.VECTOR:
            return RowsInMemory(tuple(row for rows in self._memory.values() for row in rows))
        return None
