"""What a worker must know to read for itself, in the place of Spark.

Frozen data: which columns of Parquet files or of a Python data source, or which parts of Kafka's
messages, become which columns of a row, and what of them one task reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

#: The kind of a column of event times: whole microseconds, null where it is no time of Beam's.
MICROS = "micros"
#: Event times of Beam's lie between these, as `ReadFromSpark` asks Spark for them.
MOST_MICROS = 9_223_372_036_854_000_000


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of the rows."""

    name: str  # as the rows have it
    path: tuple[str, ...]  # where it stands at the source, from struct to field, or in a message
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


@dataclass(frozen=True, slots=True)
class TopicScan:
    """The rows that messages of Kafka's topics give.

    The path of a column is what of a message it has: ("value",). The name of a message's partition,
    as clocks of sources know it, is of ("topic", "partition").
    """

    columns: tuple[ScanColumn, ...]
    settings: tuple[tuple[str, str], ...] = field(repr=False)  # of a consumer; some are secrets


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The messages of a partition between two offsets; the second is not read."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReaderScan:
    """The rows that the stream reader of a Python data source gives."""

    columns: tuple[ScanColumn, ...]
    #: Gives the batches of Arrow of a partition; a worker only calls it.
    give: Callable[[bytes], Iterable[Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReaderPart:
    """What the reader made a partition of, as Spark has it."""

    partition: bytes


#: How rows are read without Spark, and what one task reads.
Scan = FileScan | TopicScan | ReaderScan
Part = FilePart | TopicPart | ReaderPart
