"""The rows that are streamed: Parquet files in a fixed order, and the answers to them by formula.

Row i has key `i * SCRAMBLE % keys` and stands at its share of `SPAN_SECONDS`, so time rises from
file to file. One file more holds one row far in the future: it closes every window before it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lab.experiments.micro.answers import SCRAMBLE

#: Event time that the rows cover, and the length of their windows unless said otherwise.
SPAN_SECONDS = 1_000
WINDOW_SECONDS = 10
#: The first instant: far enough from 1970 that no window begins before it.
START_SECONDS = 1_700_000_000
#: Of the row that ends the stream; all tallies leave it out.
CLOSING_KEY = -1
CLOSING_SECONDS = START_SECONDS + 100 * SPAN_SECONDS
#: What a side input gives for each window.
SIDE_KEYS = 100
SCHEMA = "key long, value long, bucket long, at timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How many rows, on how many keys, in how many files."""

    rows: int
    keys: int
    files: int
    window_seconds: int = WINDOW_SECONDS

    def columns(self) -> dict[str, Any]:
        """Give all rows but the closing one, as arrays."""
        i = np.arange(self.rows, dtype=np.int64)
        micros = i * (SPAN_SECONDS * 1_000_000) // self.rows
        return {
            "key": i * SCRAMBLE % self.keys,
            "value": i % 97,
            "bucket": micros // (self.window_seconds * 1_000_000),
            "at": micros + START_SECONDS * 1_000_000,
        }

    def counts(self) -> dict[str, int]:
        """Give the answer of a count by key and window."""
        found = self.columns()
        pairs = found["bucket"] * self.keys + found["key"]
        groups, sizes = np.unique(pairs, return_counts=True)
        mixed = sizes * (groups % self.keys + 1) * (groups // self.keys + 1)
        return {"groups": len(groups), "rows": self.rows, "mixed": int(mixed.sum())}

    def joined(self) -> dict[str, int]:
        """Give the answer of the join with the side input."""
        found = self.columns()
        rates = found["key"] % SIDE_KEYS * 7 + found["bucket"]
        return {"rows": self.rows, "mixed": int((found["value"] * rates).sum())}


def write_rows(folder: Path, wanted: Rows) -> None:
    """Write the files and the closing one."""
    found = wanted.columns()
    for n in range(wanted.files):
        part = slice(wanted.rows * n // wanted.files, wanted.rows * (n + 1) // wanted.files)
        write_file(folder, n, {name: column[part] for name, column in found.items()})
    close(folder, wanted.files)


def close(folder: Path, number: int) -> None:
    """Write the file that ends a stream."""
    micros = CLOSING_SECONDS * 1_000_000
    write_file(folder, number, {"key": [CLOSING_KEY], "value": [0], "bucket": [0], "at": [micros]})


def write_sides(folder: Path, files: int) -> None:
    """Write the side input: for each window `SIDE_KEYS` rates."""
    windows = SPAN_SECONDS // WINDOW_SECONDS
    buckets, keys = np.divmod(np.arange(windows * SIDE_KEYS, dtype=np.int64), SIDE_KEYS)
    at = (buckets * WINDOW_SECONDS + START_SECONDS) * 1_000_000
    columns = {"key": keys, "value": keys * 7 + buckets, "bucket": buckets, "at": at}
    for n in range(files):
        part = slice(len(keys) * n // files, len(keys) * (n + 1) // files)
        write_file(folder, n, {name: column[part] for name, column in columns.items()})
    close(folder, files)


def write_file(folder: Path, number: int, columns: dict[str, Any]) -> None:
    """Write one file. Spark reads files by age, so each is a second younger than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: pa.array(column, pa.int64()) for name, column in columns.items()}
    arrays["at"] = arrays["at"].cast(pa.timestamp("us", tz="UTC"))
    path = folder / f"{number:05d}.parquet"
    hidden = folder / f".{number:05d}.parquet"  # a reader must not see half a file
    pq.write_table(pa.table(arrays), hidden)
    os.utime(hidden, (START_SECONDS + number, START_SECONDS + number))
    hidden.rename(path)


def stream(spark: Any, folder: Path, files_at_once: int) -> Any:
    """Give the streaming DataFrame over a folder of such files."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_at_once)
    return reader.parquet(str(folder))
