"""Reports of one task as a few small rows, for a driver that fetches rows one by one.

Takes the batches of super tuples that a task gives, all of them reports; gives batches of one
column of bytes. Every value that a driver asks its JVM for is a call, and an answer over 8 KB was
seen to take 41 ms, so the reports travel together, compressed, in parts below that.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

#: The one column.
PART_COLUMN = "part"
#: Of one part; a third is added by the text in which a JVM's answer has bytes.
PART_BYTES = 5_000

_SCHEMA = pa.schema([pa.field(PART_COLUMN, pa.binary(), nullable=False)])


def pack(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Give all reports at once, for a driver that is told of them without a JVM in between."""
    reports = [
        pair
        for batch in batches
        for pair in zip(
            batch.column("seq").to_pylist(), batch.column("payload").to_pylist(), strict=True
        )
    ]
    return zlib.compress(marshal.dumps(reports), 1)


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the parts, once all reports are there."""
    data = pack(batches)
    parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
    yield pa.RecordBatch.from_arrays([pa.array(parts, pa.binary())], schema=_SCHEMA)


def unpacked(parts: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Read what `packed` gave in one task, or in several one after the other.

    Gives number and payload of each report.
    """
    found: list[tuple[int, bytes]] = []
    data = b"".join(parts)
    while data:
        one = zlib.decompressobj()
        found += marshal.loads(one.decompress(data))
        data = one.unused_data
    return found
