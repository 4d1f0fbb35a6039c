"""Writes a generator's events to files: Parquet, JSON lines or an Arrow file.

Any number of processes makes the same events in the same order: each takes slices by their number.
What is written has another name until it is complete. Knows generators by their protocol only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import OptionError
from headrace.lab.data.generator import Generator

#: Events of a row group of Parquet and of a batch of Arrow; a process makes so many at a time.
SLICE = 100_000
#: Row groups of a Parquet file; a file is what one process writes and one task reads.
SLICES_PER_PART = 5
#: Characters of a slice, so that records far above the usual size fit into memory.
_SLICE_BYTES = 256 * 2**20
_PROBE = 1_000
#: Who asks for more events than this has asked for a stream without an end.
_MOST = 10**12

#: Is told how many events are written, each time that it is more.
Progress = Callable[[int], None]


class Format(Enum):
    """The forms of a log of events."""

    PARQUET = "parquet"  # a folder of part files, with all columns of the generator's schema
    JSONL = "jsonl"  # one text, a line per event
    ARROW = "arrow"  # one Arrow IPC file, with all columns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    start: int
    count: int


def log(
    generator: Generator,
    target: str | Path,
    fmt: Format = Format.PARQUET,
    processes: int = 1,
    *,
    progress: Progress = lambda _written: None,
) -> Path:
    """Write all events of a generator.

    Args:
        generator: of the events.
        target: a folder for Parquet, a file for the others. Must not exist yet, and appears when
            all is written.
        fmt: of the files.
        processes: that make events at the same time; what is written does not depend on it.
        progress: is told of every slice.

    Raises:
        OptionError: the target exists or cannot be written, or there is no end of events.
    """
    target = Path(target)
    if generator.events > _MOST:
        msg = f"{generator.events:,} events do not fit into files: say how many you need"
        raise OptionError(msg)
    slices = list(_slices(generator, SLICE))
    with _becoming(target) as place:
        match fmt:
            case Format.PARQUET:
                _write_parts(generator, place, slices, processes, progress)
            case Format.JSONL:
                with place.open("wb") as file:
                    _write_lines(generator, file, slices, processes, progress)
            case Format.ARROW:
                _write_arrow(generator, place, slices, processes, progress)
    return target


@contextmanager
def _becoming(target: Path) -> Iterator[Path]:
    """Give a path that becomes the target if all goes well, and vanishes if not."""
    if target.exists() or target.is_symlink():
        msg = f"{target} exists already; choose another name or delete it"
        raise OptionError(msg)
    place = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield place
        place.rename(target)
    except OSError as e:
        msg = f"{target} cannot be written: {e.strerror or e}"
        raise OptionError(msg) from e
    finally:
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # there is none: it has its name now, or was never made
            place.unlink()


def _slices(generator: Generator, most: int) -> Iterator[_Slice]:
    """Cut the events into slices of a size that fits into memory."""
    probe = min(_PROBE, generator.events)
    size = generator.batch(0, probe).nbytes // max(probe, 1)
    count = max(min(most, _SLICE_BYTES // max(size, 1)), 1)
    for start in range(0, generator.events, count):
        yield _Slice(start=start, count=min(count, generator.events - start))


def _made(
    make: Callable[[_Slice], Any], slices: Iterable[_Slice], processes: int
) -> Iterator[Any]:
    """Make slices, in order; never many more than are taken."""
    if processes == 1:
        yield from map(make, slices)
        return
    # Spawned, not forked: the caller may have threads, and a JVM behind one of them.
    with get_context("spawn").Pool(processes) as pool:
        waiting: list[Any] = []
        for each in slices:
            waiting.append(pool.apply_async(make, (each,)))
            if len(waiting) > 2 * processes:
                yield waiting.pop(0).get()
        while waiting:
            yield waiting.pop(0).get()


# --- Parquet


def _write_parts(
    generator: Generator, folder: Path, slices: list[_Slice], processes: int, progress: Progress
) -> None:
    folder.mkdir()
    parts = [
        (folder / f"part-{number:05d}.parquet", tuple(slices[at : at + SLICES_PER_PART]))
        for number, at in enumerate(range(0, len(slices), SLICES_PER_PART))
    ]
    written = 0
    if processes == 1:
        for path, some in parts:
            for count in _write_part(generator, path, some):
                written += count
                progress(written)
        return
    with get_context("spawn").Pool(min(processes, len(parts) or 1)) as pool:
        for count in pool.imap_unordered(partial(_write_whole_part, generator), parts):
            written += count
            progress(written)


def _write_part(generator: Generator, path: Path, slices: tuple[_Slice, ...]) -> Iterator[int]:
    # Most text is random: a dictionary of it is larger than the text, and slow to make and read.
    how: dict[str, Any] = {"use_dictionary": False, "compression": "zstd", "compression_level": 1}
    with pq.ParquetWriter(path, generator.schema, **how) as out:
        for each in slices:
            out.write_batch(generator.batch(each.start, each.count), row_group_size=each.count)
            yield each.count


def _write_whole_part(generator: Generator, part: tuple[Path, tuple[_Slice, ...]]) -> int:
    return sum(_write_part(generator, *part))


# --- one file


def _write_lines(
    generator: Generator, file: BinaryIO, slices: list[_Slice], processes: int, progress: Progress
) -> None:
    written = 0
    texts = _made(partial(_lines, generator), slices, processes)
    for each, text in zip(slices, texts, strict=True):
        file.write(text)
        written += each.count
        progress(written)


def _lines(generator: Generator, each: _Slice) -> bytes:
    elements, _ = generator.elements(each.start, each.count)
    return "".join([f"{line}\n" for line in map(generator.to_line, elements)]).encode()


def _write_arrow(
    generator: Generator, path: Path, slices: list[_Slice], processes: int, progress: Progress
) -> None:
    written = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, generator.schema) as out:
        for batch in _made(partial(_batch, generator), slices, processes):
            out.write_batch(batch)
            written += batch.num_rows
            progress(written)


def _batch(generator: Generator, each: _Slice) -> pa.RecordBatch:
    return generator.batch(each.start, each.count)
