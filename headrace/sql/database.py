"""Asks DuckDB: tables of Arrow in, a table of Arrow out.

The database lives in memory, in one thread, and sees the tables that it is given: neither files nor
networks nor extensions, whatever a query says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from headrace.errors import UnsupportedTransformError

#: Sums of whole numbers have 128 bits in DuckDB; rows have 64, and what does not fit is an error.
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "BIGNUM")


class Database:
    """One query, answered again and again for other tables."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._connection: Any = duckdb.connect(":memory:", config={"threads": 1})
        for setting in (
            "SET enable_external_access = false",
            "SET autoinstall_known_extensions = false",
            "SET autoload_known_extensions = false",
            "SET TimeZone = 'UTC'",
            "SET lock_configuration = true",
        ):
            self._connection.execute(setting)

    def answer(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Give the rows of the answer."""
        for name, table in tables.items():
            self._connection.register(name, table)
        try:
            return self._connection.sql(self._text).to_arrow_table()
        finally:
            for name in tables:
                self._connection.unregister(name)

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()


def narrowed(text: str, tables: Mapping[str, pa.Table]) -> str:
    """Give the query with results that rows can have: whole numbers of 64 bits.

    Args:
        text: of the query.
        tables: empty ones, with its columns.

    Raises:
        UnsupportedTransformError: DuckDB refuses it; says why.
    """
    database = Database(text)
    try:
        for name, table in tables.items():
            database._connection.register(name, table)  # noqa: SLF001 (our own)
        asked = database._connection.sql(text)  # noqa: SLF001
        names, types = asked.columns, [str(kind) for kind in asked.types]
    except duckdb.Error as e:
        msg = f"the query is refused: {str(e).strip().splitlines()[0]}"
        raise UnsupportedTransformError(msg) from e
    finally:
        database.close()
    if not set(types) & set(_WIDE):
        return text
    results = (
        f'CAST("{name}" AS BIGINT) AS "{name}"' if kind in _WIDE else f'"{name}"'
        for name, kind in zip(names, types, strict=True)
    )
    return f"SELECT {', '.join(results)} FROM ({text})"
