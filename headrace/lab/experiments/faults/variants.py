"""The kinds of pipeline that are tortured: where events come from, and which sink each branch has.

Frozen data; `pipeline` builds from it and `reading` reads back by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """Where events and rates come from."""

    FRAMES = "frames"  # streaming DataFrames: Spark logs what was read
    SPLITTABLE = "splittable"  # unbounded splittable DoFns: what was read is state of ours


class SinkKind(Enum):
    """How the rows of a branch are written."""

    FILES = "files"  # Parquet, by the workers: one folder per epoch
    PARTITIONS = "partitions"  # Parquet with partition_by, by Spark: one folder per epoch
    FUNCTION = "function"  # a function per epoch: one transaction in SQLite
    BEAM_FILES = "beam_files"  # Beam's fileio.WriteToFiles: one file per window
    BEAM_TEXT = "beam_text"  # Beam's WriteToText: one file per window


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kind of pipeline."""

    name: str
    source: Source
    sinks: Mapping[str, SinkKind]  # by branch


#: Partitions and files of Beam's need branches whose windows many keys share.
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            name="plain", source=Source.FRAMES,
            sinks=dict.fromkeys(("totals", "sessions", "flushes", "joined"), SinkKind.FILES),
        ),
        Variant(
            name="mixed", source=Source.FRAMES,
            sinks={
                "totals": SinkKind.PARTITIONS, "sessions": SinkKind.FILES,
                "flushes": SinkKind.FUNCTION, "joined": SinkKind.BEAM_FILES,
            },
        ),
        Variant(
            name="splittable", source=Source.SPLITTABLE,
            sinks={
                "totals": SinkKind.BEAM_TEXT, "sessions": SinkKind.FUNCTION,
                "flushes": SinkKind.FILES, "joined": SinkKind.PARTITIONS,
            },
        ),
    )
}
PLAIN = VARIANTS["plain"]
