"""The events that close a NEXMark log for Spark.

Spark's watermark never goes past the newest event, so what is open at the end of the input stays
open. Three events far in the future, one of each kind (each kind has its watermark), let Spark
answer all that came before them. They match nothing: no question but the stateless ones, which need
no closing, gives a row for them, because what they open themselves stays open in its turn.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

#: Ten years: more than any window, gap, wait or auction that settings allow for.
CLOSING_AFTER_MS = 10 * 365 * 86_400_000
_NOBODY, _NOTHING = -1, -2


def closing_events(schema: pa.Schema, number: int, last_ms: int) -> pa.Table:
    """Make the closing events of a log.

    Args:
        schema: of the log.
        number: the first number that no event of the log has.
        last_ms: time of the newest event of the log.
    """
    at = last_ms + CLOSING_AFTER_MS
    # A person who sells nothing, an auction without a seller, a bid on no auction.
    known = {
        "person": {"id": _NOBODY, "date_time": at},
        "auction": {"id": _NOBODY, "seller": _NOTHING, "date_time": at, "expires": at + 1},
        "bid": {"auction": _NOTHING, "bidder": _NOBODY, "date_time": at},
    }
    rows = [
        {
            "number": number + kind, "time": at * 1_000, "nanos": at * 1_000_000, "kind": kind,
            **dict.fromkeys(known), name: _filled(schema.field(name).type, record),
        }
        for kind, (name, record) in enumerate(known.items())
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _filled(struct: pa.StructType, record: dict[str, Any]) -> dict[str, Any]:
    """Give every field that the record lacks an empty text or a zero."""
    return {field.name: record.get(field.name, "" if field.type == pa.string() else 0)
            for field in struct}
