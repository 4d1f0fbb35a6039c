"""Reads what a run wrote, whatever the sinks of its branches are, without numbers of epochs."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.lab.experiments.faults.oracle import COLUMNS, Answer
from headrace.lab.experiments.faults.variants import PLAIN, SinkKind, Variant

_PARTITION = "start="


def written(folder: Path, variant: Variant = PLAIN) -> Answer:
    """Give what a run has written, by branch."""
    return {
        branch: Counter(_rows(folder / branch, kind)) for branch, kind in variant.sinks.items()
    }


def _rows(place: Path, kind: SinkKind) -> Iterable[Any]:
    match kind:
        case SinkKind.FILES:
            for path in sorted(place.glob("epoch=*/*.parquet")):
                yield from _parquet(path, COLUMNS)
        case SinkKind.PARTITIONS:
            rest = [name for name in COLUMNS if name != "start"]
            for path in sorted(place.glob(f"epoch=*/{_PARTITION}*/*.parquet")):
                start = int(path.parent.name.removeprefix(_PARTITION))
                for key, *more in _parquet(path, rest):
                    yield key, start, *more
        case SinkKind.FUNCTION:
            for path in place.glob("*.sqlite"):
                with closing(sqlite3.connect(path)) as database:
                    yield from database.execute(
                        "SELECT key, start, until, count, total, mix FROM rows"
                    )
        case SinkKind.BEAM_FILES | SinkKind.BEAM_TEXT:
            for path in sorted(place.glob("*.txt")):
                for line in path.read_text(encoding="utf-8").splitlines():
                    yield tuple(json.loads(line))


def _parquet(path: Path, columns: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    # Opened as one file: the names of its folders are no columns here.
    table = pq.ParquetFile(path).read(columns=list(columns))
    yield from zip(*(table.column(name).to_pylist() for name in columns), strict=True)
