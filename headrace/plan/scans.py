"""What a worker must know to read Parquet files itself, in the place of Spark.

Frozen data: which columns of the files become which columns of a row, and which parts of which
files one task reads.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The kind of a column of event times: whole microseconds, null where it is no time of Beam's.
MICROS = "micros"
#: Event times of Beam's lie between these, as `ReadFromSpark` asks Spark for them.
MOST_MICROS = 9_223_372_036_854_000_000


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of the rows."""

    name: str  # as the rows have it
    path: tuple[str, ...]  # where it stands in a file, from struct to field
    kind: str  # its type in Spark's words, or MICROS


@dataclass(frozen=True, slots=True)
class FileScan:
    """The rows that files give."""

    columns: tuple[ScanColumn, ...]


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: the row groups whose middle lies in it."""

    path: str
    start: int  # its first byte
    length: int
    size: int  # of the whole file
