"""Puts questions to DuckDB: a fresh database for each, in memory, over the logged events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import duckdb

from headrace.lab.workload import Row

_AS_COLUMNS: ContextVar[bool] = ContextVar("as_columns", default=False)


@contextmanager
def as_columns() -> Iterator[None]:
    """Let answers be tables of Arrow's instead of lists: for those of millions of rows."""
    before = _AS_COLUMNS.set(True)
    try:
        yield
    finally:
        _AS_COLUMNS.reset(before)


def ask(*statements: str, values: Mapping[str, Any]) -> list[Row]:
    """Run statements in turn; give the rows of the last, in which `$name` stands for a value.

    >>> ask("CREATE TABLE t AS SELECT 20 AS n", "SELECT n + $more FROM t", values={"more": 2})
    [(22,)]
    """
    with duckdb.connect() as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        if _AS_COLUMNS.get():
            found = connection.sql(statements[-1], params=dict(values))
            return found.to_arrow_table()  # type: ignore[no-any-return]
        return connection.execute(statements[-1], dict(values)).fetchall()
