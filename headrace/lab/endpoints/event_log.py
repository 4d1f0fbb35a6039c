"""The log of a run's events: Parquet files with the columns of the generator, in order of arrival.

The oracle reads it, and so do Spark's own queries. Below the log's folder stand `events/` and, for
a streaming query, `closing/`: events that come last and are far ahead, because Spark keeps windows
open until something newer arrives.
"""

from __future__ import annotations

import functools
import os
from bisect import bisect_left
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lab.data.generator import Generator

#: One file is one batch of Spark's own queries.
ROWS_PER_FILE = 100_000
#: How far ahead the events are that close a stream, and how many at most: some questions look at a
#: third of the events only, and at least one must move the watermark.
CLOSING_DAYS, CLOSING_EVENTS = 1_000, 32
_DAY_MICROS = 86_400_000_000
#: Spark reads files by age, so each is a second younger than the one before.
_FIRST_AGE_SECONDS = 1_700_000_000


def write_log(
    generator: Generator, folder: Path, *, done: Callable[[int], None] = lambda _: None,
    per_file: int | None = None,
) -> str:
    """Write all events unless they are there already; give the pattern of the files' names.

    Args:
        generator: makes them.
        folder: of the log.
        done: told how many events are written, now and then.
        per_file: events of a file, ROWS_PER_FILE if not given; where there is a log already, its
            files decide.
    """
    events = folder / "events"
    events.mkdir(parents=True, exist_ok=True)
    per_file = per_file or ROWS_PER_FILE
    first = events / "000000.parquet"
    if first.exists():  # what an earlier call began, this one goes on with
        per_file = max(1, pq.read_metadata(first).num_rows)
    for number, start in enumerate(range(0, max(1, generator.events), per_file)):
        path = events / f"{number:06d}.parquet"
        count = min(per_file, generator.events - start)
        if not path.exists():
            batch = generator.batch(start, count)
            _write(path, pa.Table.from_batches([batch], generator.schema), number)
        done(start + count)
    return str(events / "*.parquet")


def write_closing(generator: Generator, folder: Path, module: str) -> None:
    """Write what closes the stream.

    A module `MODULE_closing` may say what that is, by `closing_events(schema, number, last_ms)`;
    else it is a few events of the generator's own, of a day far ahead.

    Args:
        generator: of the events before.
        folder: of the log.
        module: where the native versions stand.
    """
    there = len(list((folder / "events").glob("*.parquet")))
    files = max(-(-generator.events // ROWS_PER_FILE), there)  # it is younger than all of them
    made = _own_closing(generator, module)
    if made is None:
        made = pa.Table.from_batches([generator.batch(*far_ahead(generator))], generator.schema)
    closing = folder / "closing"
    closing.mkdir(parents=True, exist_ok=True)
    _write(closing / "closing.parquet", made, files)


def _own_closing(generator: Generator, module: str) -> pa.Table | None:
    try:
        found = import_module(f"{module}_closing")
    except ModuleNotFoundError:
        return None
    last_ms = generator.watermark(generator.events) // 1_000 + 1
    return found.closing_events(generator.schema, generator.events, last_ms)


def far_ahead(generator: Generator) -> tuple[int, int]:
    """Give the first event on a day far ahead, and how many from there on close a stream.

    Events at the beginning of a day begin windows of all usual sizes, and those of one second are
    too close to each other to close what they open.
    """
    last = generator.watermark(generator.events)
    day = (last // _DAY_MICROS + CLOSING_DAYS) * _DAY_MICROS
    step = 1
    while generator.watermark(generator.events + step) < day:
        step *= 2
    numbers = range(generator.events, generator.events + step + 1)
    first = numbers[bisect_left(numbers, day, key=generator.watermark)]
    some = range(first + 1, first + CLOSING_EVENTS)
    return first, 1 + bisect_left(some, day + 1_000_000, key=generator.watermark)


def _write(path: Path, table: pa.Table, number: int) -> None:
    hidden = path.with_name(f".{path.name}")  # a reader must not see half a file
    pq.write_table(table, hidden)
    os.utime(hidden, (_FIRST_AGE_SECONDS + number,) * 2)
    hidden.rename(path)


def files_at_once(folder: Path, per_batch: int) -> int:
    """How many files of a log have so many events together, at most; at least one."""
    first = min((folder / "events").glob("*.parquet"))
    rows: int = pq.read_metadata(first).num_rows
    return max(1, per_batch // max(1, rows))


def disorder_seconds(folder: Path) -> float:
    """How much older than the newest event before it an event of a log is, at most."""
    paths = sorted((folder / "events").glob("*.parquet"))
    return _disorder(tuple((str(path), path.stat().st_size) for path in paths))


@functools.lru_cache(maxsize=64)
def _disorder(files: tuple[tuple[str, int], ...]) -> float:
    """The same of files; each run on a log asks, and a log does not change."""
    newest, most = None, 0
    for path, _ in files:
        times = pq.read_table(path, columns=["time"]).column(0).combine_chunks()
        micros = np.asarray(times.cast(pa.int64()))
        if not len(micros):
            continue
        so_far = np.maximum.accumulate(micros)
        if newest is not None:
            so_far = np.maximum(so_far, newest)
        most = max(most, int((so_far - micros).max()))
        newest = so_far[-1]
    return most / 1e6


def log_frame(
    spark: Any, folder: Path, *, streaming: bool, files_at_once: int = 1, closing: bool = True
) -> Any:
    """Give the DataFrame over a log.

    Args:
        spark: the session.
        folder: of the log.
        streaming: a streaming one, of some files at a time.
        files_at_once: how many files a batch has, at most.
        closing: read what closes the stream, too.
    """
    events = f"{folder}/events"
    if not streaming:
        return spark.read.parquet(events)
    schema = spark.read.parquet(events).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_at_once)
    return reader.parquet(f"{folder}/*" if closing else events)
