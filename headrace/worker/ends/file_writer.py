"""The writer of a channel that leaves the plan as files: the worker writes them itself.

A file is written in a folder of the epoch's attempt, where no reader looks; the driver moves it to
its place if its task succeeds. So rows need not travel back through Spark to be written there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.state.disk_space import space_for
from headrace.worker.ends.column_writer import ColumnWriter
from headrace.worker.exchange.super_tuples import SuperTuple

#: Rows of a row group: readers skip and share work by groups, so few large ones are better.
GROUP_ROWS = 100_000
#: And its bytes, before they are packed: rows of some kilobytes fill the memory before the count.
GROUP_BYTES = 64 << 20
#: Rows by which it is judged whether a dictionary of a column's values is worth making.
SAMPLE_ROWS = 4_096


class FileWriter(ColumnWriter):
    """Collects elements and writes them to one Parquet file per epoch.

    Args:
        channel: the channel's number.
        name: the sink's name, for messages.
        schema: of the rows.
        folder: gives where the file belongs, in the epoch that runs.
        wrote: told the name of each file, and how many rows it has.
        shard: stands in the file's name.
        super_tuple_bytes: about how much is made Arrow at once.
        verified: columns that come as such are made of objects too, and compared.
    """

    def __init__(
        self,
        channel: int,
        name: str,
        schema: pa.Schema,
        *,
        folder: Callable[[], str],
        wrote: Callable[[str, int], None],
        shard: int,
        super_tuple_bytes: int,
        verified: bool = False,
    ) -> None:
        super().__init__(
            channel, name, schema, _nobody, shard=shard, super_tuple_bytes=super_tuple_bytes,
            verified=verified,
        )
        self._folder = folder
        self._wrote = wrote
        self._batches: list[pa.RecordBatch] = []
        self._waiting = self._waiting_bytes = 0
        self._rows = 0
        self._file: pq.ParquetWriter | None = None
        self._file_name = ""
        self._path = ""

    def flush(self) -> None:
        """End the file, if there is one."""
        super().flush()
        self._write()
        if self._file is None:
            return
        with space_for(self._path):
            self._file.close()
        self._file = None
        self._wrote(self._file_name, self._rows)
        self._rows = 0

    def _ship_columns(self) -> None:
        """Take what came as columns, whole: a file has no rows that may become too large."""
        held, self._columns, self._column_bytes = self._columns, [], 0
        for batch in held:
            self._ship_batch(batch)

    def _ship_batch(self, batch: pa.RecordBatch, numbers: bytes = b"") -> int:  # noqa: ARG002 (files have none)
        """Add rows to the file; give the bytes that they take."""
        self._batches.append(batch)
        self._waiting += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write()
        return int(batch.nbytes)

    def _write(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, self._schema)
        if self._file is None:
            self._file_name = f"part-{self._shard:05d}-{uuid.uuid4().hex}.parquet"
            self._path = f"{self._folder()}/{self._file_name}"
        with space_for(self._path, table.nbytes):
            if self._file is None:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
                self._file = pq.ParquetWriter(
                    self._path, self._schema, use_dictionary=with_dictionary(table)
                )
            self._file.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._batches, self._waiting, self._waiting_bytes = [], 0, 0


def with_dictionary(table: pa.Table) -> list[str] | bool:
    """Give the columns whose values repeat: for others a dictionary is made and thrown away.

    >>> with_dictionary(pa.table({"key": [1, 2] * 50, "number": list(range(100))}))
    ['key']
    """
    if any(pa.types.is_nested(f.type) or pa.types.is_null(f.type) for f in table.schema):
        return True  # a leaf has a name of its own there
    found = table.slice(0, SAMPLE_ROWS)
    most = found.num_rows // 2
    return [
        name for name, column in zip(found.column_names, found.columns, strict=True)
        if pc.count_distinct(column, mode="all").as_py() <= most
    ]  # fmt: skip


def _nobody(_: SuperTuple) -> None:
    """No row of such a channel is sent."""
