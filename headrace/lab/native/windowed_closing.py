"""The events that close a log of the windowed questions for Spark.

Spark's watermark never goes past the newest event, so windows that are open at the end of the input
stay open. One event of each stream, far in the future, closes them. Their keys are nobody's, for
Spark's join answers as soon as two events meet.
"""

from __future__ import annotations

import pyarrow as pa

#: Ten years: more than any window that settings allow for.
CLOSING_AFTER_MS = 10 * 365 * 86_400_000


def closing_events(schema: pa.Schema, number: int, last_ms: int) -> pa.Table:
    """Make the closing events of a log.

    Args:
        schema: of the log.
        number: the first number that no event of the log has.
        last_ms: time of the newest event of the log.
    """
    at_ms = last_ms + CLOSING_AFTER_MS
    rows = [
        {
            "number": number + stream,
            "time": at_ms * 1_000,
            "nanos": at_ms * 1_000_000,
            "key": -1 - stream,
            "value": 1,
            "stream": stream,
        }
        for stream in (0, 1)
    ]
    return pa.Table.from_pylist(rows, schema=schema)
