"""The names of sources and sinks, as the command line and a request know them.

Data only. What a source or a sink does on which system stands in the modules beside this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.errors import OptionError


class SourceKind(Enum):
    """Where events come from."""

    GENERATOR = "generator"  # made where they are needed, from settings and number
    VECTOR = "vector"  # made first, then held in memory
    FILE = "file"  # lines of a file, as `headrace generate --format jsonl` writes them
    CONSOLE = "console"  # lines of the standard input, read to its end
    SPARK = "spark"  # a DataFrame over Parquet files of lines
    LOG = "log"  # a DataFrame over the log, with a column for each field: what Spark's queries read
    ENGINE = "engine"  # data engines, which send events on a schedule of their own
    NULL = "null"  # none at all


class SinkKind(Enum):
    """Where rows go."""

    FILE = "file"  # files of their own, each row once; then JSON lines if an output is named
    VECTOR = "vector"  # memory of the driver
    COLUMNS = "columns"  # memory of the driver, as tables of Arrow's
    CONSOLE = "console"  # printed, as tab-separated lines
    METER = "meter"  # counted per epoch or window, the counts printed
    SPARK = "spark"  # Parquet files by epoch, at a path of the user's
    NULL = "null"  # counted and dropped


_WITH_PATHS = (SourceKind.FILE, SourceKind.SPARK, SourceKind.LOG, SourceKind.ENGINE)


@dataclass(frozen=True, slots=True)
class Source:
    """A source and, for some, its path."""

    kind: SourceKind = SourceKind.GENERATOR
    path: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink and, for some, its path: of one in memory, where its rows outlive the driver."""

    kind: SinkKind = SinkKind.FILE
    path: str = ""


def read_source(text: str) -> Source:
    """Understand a name such as `generator` or `file:events.jsonl`.

    >>> read_source("file:events.jsonl")
    Source(kind=<SourceKind.FILE: 'file'>, path='events.jsonl')

    Raises:
        OptionError: there is no such source, or its path is missing or out of place.
    """
    name, _, path = text.partition(":")
    kind = next((kind for kind in SourceKind if kind.value == name), None)
    if kind is None:
        raise OptionError(_unknown("source", name, SourceKind))
    if kind is SourceKind.FILE and not path:
        msg = "the source file needs a path: file:events.jsonl"
        raise OptionError(msg)
    if kind is SourceKind.ENGINE and not path:
        msg = "the source engine needs the addresses of engines: engine:BLOCK@HOST:PORT,HOST:PORT"
        raise OptionError(msg)
    if path and kind not in _WITH_PATHS:
        msg = f"the source {name} has no path; file, spark, log and engine have"
        raise OptionError(msg)
    return Source(kind, path)


def read_sink(text: str) -> Sink:
    """Understand a name such as `null` or `spark:rows`.

    >>> read_sink("null")
    Sink(kind=<SinkKind.NULL: 'null'>, path='')

    Raises:
        OptionError: there is no such sink, or its path is missing or out of place.
    """
    name, _, path = text.partition(":")
    kind = next((kind for kind in SinkKind if kind.value == name), None)
    if kind is None:
        raise OptionError(_unknown("sink", name, SinkKind))
    if kind is SinkKind.SPARK and not path:
        msg = "the sink spark needs a path: spark:rows"
        raise OptionError(msg)
    if path and kind is not SinkKind.SPARK:
        msg = f"the sink {name} has no path; --output names the file of the rows"
        raise OptionError(msg)
    return Sink(kind, path)


def _unknown(what: str, name: str, kinds: type[Enum]) -> str:
    return f"there is no {what} {name!r}; there are {', '.join(kind.value for kind in kinds)}"
