"""Writes the rows of a DataFrame without Spark to files: Parquet, JSON lines, CSV.

The part of Spark's `DataFrameWriter` that a sink with a path uses. A folder appears whole.
"""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.io.storage import Storage


class LocalWriter:
    """Collects what is asked for, then writes."""

    def __init__(self, table: pa.Table, storage: Storage) -> None:
        self._table = table
        self._storage = storage
        self._mode = "error"
        self._format = "parquet"
        self._options: dict[str, str] = {}

    def mode(self, mode: str) -> LocalWriter:
        """Say what becomes of what is there: error, overwrite or append."""
        self._mode = mode
        return self

    def options(self, **options: str) -> LocalWriter:
        """Take options; of those, `header` of CSV means something here."""
        self._options |= options
        return self

    def partitionBy(self, *columns: str) -> LocalWriter:
        """Refuse: folders for columns are Spark's work."""
        msg = f"partition_by={columns} needs Spark; leave it out in a test without"
        raise UnsupportedTransformError(msg)

    def format(self, name: str) -> LocalWriter:
        """Choose parquet, json or csv."""
        self._format = name.lower()
        return self

    def save(self, path: str) -> None:
        """Write the rows as one file of a folder."""
        storage, folder = self._storage, path.removeprefix("file://").rstrip("/")
        there = storage.exists(folder)
        if there and self._mode == "error":
            msg = f"{folder} is there already"
            raise OptionError(msg)
        data = self._file()
        name = f"part-{uuid.uuid4().hex[:12]}.{self._format}"
        if there and self._mode == "append":
            storage.write(f"{folder}/{name}", data)
            return
        above, _, last = folder.rpartition("/")
        unfinished = f"{above}/" * bool(above) + f".{last}.{uuid.uuid4().hex}"
        storage.make_folder(unfinished)
        storage.write(f"{unfinished}/{name}", data)
        storage.remove(folder)
        storage.move(unfinished, folder)

    def saveAsTable(self, name: str) -> None:
        """Refuse: tables are Spark's."""
        msg = f"the table {name} needs Spark; write to a path, or by a function"
        raise UnsupportedTransformError(msg)

    def _file(self) -> bytes:
        """Give the bytes of a file with all rows."""
        file = io.BytesIO()
        if self._format == "parquet":
            pa.parquet.write_table(self._table, file)
        elif self._format == "json":
            for row in self._table.to_pylist():
                there = {name: value for name, value in row.items() if value is not None}
                file.write((json.dumps(there, default=_text) + "\n").encode())
        elif self._format == "csv":
            header = self._options.get("header", "false").lower() == "true"
            pa.csv.write_csv(self._table, file, pa.csv.WriteOptions(include_header=header))
        else:
            msg = f"the format {self._format!r} needs Spark; there are parquet, json and csv"
            raise UnsupportedTransformError(msg)
        return file.getvalue()


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
