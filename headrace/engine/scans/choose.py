"""Says which rows of a DataFrame workers can read themselves, and what of them each task reads.

Files, topics and Python data sources are found out about apart: `file_scans`, `topic_scans`,
`reader_scans`.
"""

from __future__ import annotations

from typing import Any

from headrace.engine.scans import file_scans, reader_scans, topic_scans
from headrace.plan.scans import FileScan, Part, ReaderScan, Scan, TopicScan

#: For each partition of a DataFrame, what its rows are.
Partitions = tuple[tuple[Part, ...], ...]


def scan_of(frame: Any) -> Scan | None:
    """Say of what the rows of a DataFrame are made, if they are no more; None: Spark must read.

    Args:
        frame: bounded or streaming, as `ReadFromSpark` asks for it.
    """
    return file_scans.scan_of(frame) or topic_scans.scan_of(frame) or reader_scans.scan_of(frame)


def partitions_of(frame: Any, scan: Scan) -> Partitions | None:
    """Say which rows the partitions of a DataFrame are; None: Spark must read.

    Args:
        frame: a bounded one, or a batch of a streaming one.
        scan: what is known of its columns.
    """
    match scan:
        case FileScan():
            return file_scans.partitions_of(frame, scan)
        case TopicScan():
            return topic_scans.partitions_of(frame)
        case ReaderScan():
            return reader_scans.partitions_of(frame)
