"""Reads what the driver has found out that a worker can read itself.

That is files, topics, or what the reader of a Python data source gives, whose call the driver has
made ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace.plan.scans import (
    FilePart,
    FileScan,
    Part,
    ReaderPart,
    ReaderScan,
    Scan,
    TopicPart,
    TopicScan,
)
from headrace.worker.ends.file_scan import ScannedBatch, picked, scanned
from headrace.worker.ends.topic_scan import consumed


def read_scan(scan: Scan, parts: Sequence[Part]) -> Iterator[ScannedBatch | pa.RecordBatch]:
    """Give the rows of these parts, in their order."""
    match scan:
        case FileScan():
            return scanned(scan, [part for part in parts if isinstance(part, FilePart)])
        case TopicScan():
            return consumed(scan, [part for part in parts if isinstance(part, TopicPart)])
        case ReaderScan():
            return picked(scan, (
                batch for part in parts if isinstance(part, ReaderPart)
                for batch in scan.give(part.partition)
            ))  # fmt: skip
