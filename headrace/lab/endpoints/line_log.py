"""Events as lines in Parquet files: what the source `spark` reads when it is given no path.

The files have the columns `time` and `line` and are read in the order of their ages, some to an
epoch. Writing them is not part of a run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import OptionError
from headrace.lab.data.generator import Generator
from headrace.lab.endpoints.sources import LINE, TIME

#: Spark reads files by age, so each is a second younger than the one before.
_FIRST_AGE_SECONDS = 1_700_000_000
#: Of a file's schema: microseconds by which its events may be older than ones before them.
_DISORDER = b"disorder_micros"


def write_lines(generator: Generator, folder: Path, *, per_file: int) -> None:
    """Write all events, so many to a file; what is there already stays.

    Every file says in its schema how far out of order the whole is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, generator.events, per_file)
    disorder = str(_disorder(generator, starts, per_file)).encode()
    for number, start in enumerate(starts):
        path = folder / f"{number:06d}.parquet"
        if path.exists():
            continue  # an earlier run on this folder had begun
        elements, micros = generator.elements(start, min(per_file, generator.events - start))
        times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        lines = pa.array(map(generator.to_line, elements), pa.string())
        table = pa.table({TIME: times, LINE: lines}).replace_schema_metadata({_DISORDER: disorder})
        hidden = folder / f".{number:06d}.parquet"  # a reader must not see half a file
        pq.write_table(table, hidden)
        os.utime(hidden, (_FIRST_AGE_SECONDS + number,) * 2)
        hidden.rename(path)


def _disorder(generator: Generator, starts: range, per_file: int) -> int:
    """How much older than the newest event before it an event can be, in microseconds."""
    newest, most = None, 0
    for start in starts:
        count = min(per_file, generator.events - start)
        micros = np.asarray(generator.batch(start, count).column("time").cast(pa.int64()))
        so_far = np.maximum.accumulate(micros)
        if newest is not None:
            so_far = np.maximum(so_far, newest)
        most = max(most, int((so_far - micros).max()))
        newest = so_far[-1]
    return most


def disorder_seconds(folder: Path) -> float:
    """Say how far out of order the files of a folder are; 0 if they do not say."""
    for path in sorted(folder.glob("*.parquet")):
        disorder = (pq.read_schema(path).metadata or {}).get(_DISORDER, b"0")
        return int(disorder) / 1e6
    return 0.0


def check_lines(folder: Path) -> None:
    """See that a folder has files, and that each has the columns `time` and `line`.

    Spark would fill a column that is not there with nulls, and a stream of rows without a time ends
    well with no result.

    Raises:
        OptionError: says what is there instead.
    """
    files = sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")
    if not files:
        msg = f"the source spark reads Parquet files, and there are none in {folder}"
        raise OptionError(msg)
    for path in files:
        try:
            found = {field.name: field.type for field in pq.read_schema(path)}
        except (pa.ArrowException, OSError) as error:
            msg = f"the source spark cannot read {path}: {error}"
            raise OptionError(msg) from error
        if not _is_moment(found.get(TIME)) or not _is_text(found.get(LINE)):
            columns = ", ".join(f"{name} {kind}" for name, kind in found.items())
            msg = (
                f"the source spark reads the columns {TIME} (a timestamp) and {LINE} (text: an "
                f"event as `headrace generate --format jsonl` writes it); {path} has {columns}"
            )
            raise OptionError(msg)


def _is_moment(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_timestamp(kind)


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def lines_frame(spark: Any, folder: Path, *, streaming: bool, files_at_once: int = 1) -> Any:
    """Give the DataFrame over such a folder."""
    schema = f"{TIME} timestamp, {LINE} string"
    if not streaming:
        return spark.read.schema(schema).parquet(str(folder))
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_at_once)
    return reader.parquet(str(folder))
