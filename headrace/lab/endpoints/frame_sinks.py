"""Sinks that take DataFrames, one per epoch: those of headrace and of Spark's own queries.

A sink may be handed the rows of the same epoch twice, after a failure. What is kept in memory or
in files is then replaced; what was printed stays printed. A sink in memory that has a path keeps
its rows there too, and begins with those of the driver before it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.lab.endpoints.kept_rows import KeptRows
from headrace.lab.endpoints.local_sinks import text_of
from headrace.lab.endpoints.names import Sink, SinkKind
from headrace.lab.endpoints.rows import Rows, RowsInMemory, RowsInParquet, RowsInTables
from headrace.lab.workload import Column, Row


def schema_of(columns: Sequence[Column]) -> str:
    """Give the schema of an answer in Spark's words.

    >>> from headrace.lab.workload import Kind
    >>> schema_of([Column("price", Kind.DOUBLE), Column("count", Kind.LONG)])
    '`price` double, `count` long'
    """
    return ", ".join(f"`{column.name}` {column.kind.value}" for column in columns)


class FrameSink:
    """One sink for one run.

    Args:
        sink: which.
        folder: where the sink `file` keeps its rows.
    """

    def __init__(self, sink: Sink, folder: Path) -> None:
        self._kind = sink.kind
        self._memory: dict[int, list[Row]] = {}
        self._tables: dict[int, Any] = {}
        self._times: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self.path: str | None = None  # of Parquet files by epoch; None: rows are not written
        if sink.kind is SinkKind.FILE:
            self.path = str(folder)
        elif sink.kind is SinkKind.SPARK:
            self.path = sink.path
        self._kept: KeptRows | None = None
        if sink.path and sink.kind in (SinkKind.VECTOR, SinkKind.COLUMNS):
            self._kept = KeptRows(Path(sink.path))
            for epoch, (left, rows) in self._kept.read().items():
                self._hold(epoch, left, rows)

    def take(self, frame: Any, epoch: int) -> None:
        """Take the rows of an epoch."""
        match self._kind:
            case SinkKind.FILE | SinkKind.SPARK:
                frame.write.mode("overwrite").parquet(f"{self.path}/epoch={epoch:08d}")
            case SinkKind.VECTOR:
                self._leave(epoch, [tuple(row) for row in frame.collect()])
            case SinkKind.COLUMNS:
                self._leave(epoch, frame.toArrow())
            case SinkKind.CONSOLE:
                rows = frame.collect()
                self._counts[epoch] = len(rows)
                for row in rows:
                    print(text_of(row), file=sys.stdout)
            case SinkKind.METER:
                self._counts[epoch] = frame.count()
                if self._counts[epoch]:
                    print(f"epoch {epoch}: {self._counts[epoch]:,} rows", file=sys.stdout)
            case SinkKind.NULL:
                self._counts[epoch] = frame.count()

    def _leave(self, epoch: int, rows: Any) -> None:
        left = time.time()
        if self._kept is not None:
            self._kept.keep(epoch, left, rows)
        self._hold(epoch, left, rows)

    def _hold(self, epoch: int, left: float, rows: Any) -> None:
        self._times[epoch] = left
        if self._kind is SinkKind.VECTOR:
            self._memory[epoch] = rows
        else:
            self._tables[epoch] = rows
            self._counts[epoch] = rows.num_rows

    @property
    def count(self) -> int | None:
        """How many rows were taken; None: they are in files and were not counted."""
        if self.path is not None:
            return None
        return sum(map(len, self._memory.values())) + sum(self._counts.values())

    def stamped(self) -> tuple[tuple[float, tuple[Row, ...]], ...]:
        """Give the rows of a sink in memory with the times at which their epochs were taken."""
        return tuple((self._times[epoch], tuple(rows)) for epoch, rows in self._memory.items())

    def tables(self) -> tuple[tuple[float, Any], ...]:
        """Give what is kept as columns, with the times at which it was taken."""
        return tuple((self._times[epoch], table) for epoch, table in self._tables.items())

    def rows(self) -> Rows | None:
        """Give the rows; None: this sink keeps none."""
        if self.path is not None:
            return RowsInParquet(self.path)
        if self._kind is SinkKind.VECTOR:
            return RowsInMemory(tuple(row for rows in self._memory.values() for row in rows))
        if self._kind is SinkKind.COLUMNS:
            return RowsInTables(tuple(self._tables.values()))
        return None
