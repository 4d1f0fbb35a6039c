"""Reads parts of Parquet files as batches whose columns are read when somebody asks for them.

Takes what the driver has found out about the files, gives batches of the columns that Spark would
have handed over. Whether the files are such that both give the same, the driver decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import TransportError
from headrace.plan.scans import MICROS, MOST_MICROS, FilePart, FileScan, ReaderScan, ScanColumn
from headrace.worker.batched.column_batches import COLUMN_ROWS

#: Bytes of a row group's columns that may be in memory together; a larger one is read in parts,
#: all of its columns side by side.
MOST_BYTES = 32 << 20


class ScannedBatch:
    """Rows of a source; a column of them is read when it is asked for, once.

    Args:
        scan: which columns there are.
        size: how many rows there are.
        load: reads one column.
    """

    __slots__ = ("_known", "_load", "num_rows", "scan")

    def __init__(
        self, scan: FileScan | ReaderScan, size: int, load: Callable[..., pa.Array]
    ) -> None:
        self.scan = scan
        self.num_rows = size
        self._load = load
        self._known: dict[int, pa.Array] = {}

    def column(self, place: int) -> pa.Array:
        """The values of a column."""
        if place not in self._known:
            self._known[place] = self._load(self.scan.columns[place])
        return self._known[place]

    def columns_from(self, place: int) -> pa.RecordBatch:
        """The columns from a place on, as Spark hands them over."""
        wanted = range(place, len(self.scan.columns))
        names = [self.scan.columns[at].name for at in wanted]
        if not names:
            return pa.RecordBatch.from_pylist([{}] * self.num_rows)
        return pa.RecordBatch.from_arrays([self.column(at) for at in wanted], names)

    def record_batch(self) -> pa.RecordBatch:
        """All of it, as Spark hands it over."""
        return self.columns_from(0)


def scanned(scan: FileScan, parts: Sequence[FilePart]) -> Iterator[ScannedBatch]:
    """Give the rows of these parts, in their order.

    Raises:
        TransportError: a file is another one than the driver has seen.
    """
    for part in parts:
        size = os.stat(part.path).st_size
        if size != part.size:
            msg = (
                f"{part.path} has {size:,} bytes now and had {part.size:,} when it was listed: "
                "files that are read must not be written any more"
            )
            raise TransportError(msg)
        # Whoever holds a column that is not read yet holds the file. It is not mapped into memory:
        # one that is cut short meanwhile would end the process instead of the task.
        file = pq.ParquetFile(part.path, memory_map=False)
        for group in groups_in(file.metadata, part):
            yield from _rows(scan, file, group)


def groups_in(metadata: pq.FileMetaData, part: FilePart) -> Iterable[int]:
    """Give the row groups whose middle lies in a part, as Parquet's own splits have it."""
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        chunks = [found.column(at) for at in range(found.num_columns)]
        first = chunks[0]
        starts = [first.data_page_offset]
        if first.has_dictionary_page:
            starts.append(first.dictionary_page_offset)
        middle = min(starts) + sum(chunk.total_compressed_size for chunk in chunks) // 2
        if part.start <= middle < part.start + part.length and found.num_rows:
            yield group


def _rows(scan: FileScan, file: pq.ParquetFile, group: int) -> Iterator[ScannedBatch]:
    found = file.metadata.row_group(group)
    wanted = sorted({".".join(column.path) for column in scan.columns})
    chunks = [found.column(at) for at in range(found.num_columns)]
    held = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in wanted)
    if held <= MOST_BYTES:

        def load(column: ScanColumn) -> pa.Array:
            table = file.read_row_group(group, [".".join(column.path)], use_threads=False)
            return _values(table.column(0), column)

        yield ScannedBatch(scan, found.num_rows, load)
        return
    yield from picked(
        scan, file.iter_batches(4 * COLUMN_ROWS, [group], wanted, use_threads=False)
    )


def picked(
    scan: FileScan | ReaderScan, batches: Iterable[pa.RecordBatch]
) -> Iterator[ScannedBatch]:
    """Give the columns that are wanted of batches that are read already."""
    for batch in batches:
        if batch.num_rows:
            yield ScannedBatch(
                scan, batch.num_rows,
                lambda column, batch=batch: _values(batch.column(column.path[0]), column),
            )


def _values(array: pa.Array | pa.ChunkedArray, column: ScanColumn) -> pa.Array:
    """Take a field out of structs; where a struct is null, so is the field."""
    if isinstance(array, pa.ChunkedArray):  # of one chunk mostly; to combine that is to copy it
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    for name in column.path[1:]:
        array = pc.struct_field(array, name)
    if column.kind != MICROS:
        return array
    micros = array.cast(pa.int64())
    if not len(micros) or micros.null_count == len(micros):
        return micros
    ends = pc.min_max(micros).as_py()
    if -MOST_MICROS <= ends["min"] and ends["max"] <= MOST_MICROS:
        return micros
    within = pc.and_(
        pc.greater_equal(micros, -MOST_MICROS), pc.less_equal(micros, MOST_MICROS)
    )
    return pc.if_else(within, micros, None)
