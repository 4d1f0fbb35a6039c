"""Puts questions to DuckDB: a fresh database for each, in memory, over the logged events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from headrace.lab.workload import Row


def ask(*statements: str, values: Mapping[str, Any]) -> list[Row]:
    """Run statements in turn; give the rows of the last, in which `$name` stands for a value.

    >>> ask("CREATE TABLE t AS SELECT 20 AS n", "SELECT n + $more FROM t", values={"more": 2})
    [(22,)]
    """
    with duckdb.connect() as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        return connection.execute(statements[-1], dict(values)).fetchall()
