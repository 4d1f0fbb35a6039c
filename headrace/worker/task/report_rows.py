"""Makes the rows by which reports travel to the driver."""

from __future__ import annotations

from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, PayloadKind, Rank, SuperTuple
from headrace.worker.protocol import Report, to_row


def row_of(report: Report, shard: int = 0) -> SuperTuple:
    """Give the row of a report; it may pass through any shard on its way."""
    number, payload = to_row(report)
    return SuperTuple(shard, Rank.REPORT, REPORT_CHANNEL, PayloadKind.REPORT, number, 1, payload)
