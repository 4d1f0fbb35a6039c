"""The NEXMark questions as the thesis on Timely asked them, of Spark's DataFrames.

The readings taken are those of the answers in `headrace.lab.oracle.nexmark_thesis`; q6 stands with
its sister in `nexmark_sellers`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.lab.native.nexmark_stream import (
    bids,
    hot_items,
    rounded_mean,
    start_ms,
    timed,
    winners,
)

EPOCH_MS = 1_000


def q4_thesis(events: DataFrame, settings: Any) -> DataFrame:
    """The mean winning price per category, of the auctions that expire in one second."""
    span = F.window("closes", f"{EPOCH_MS} milliseconds")
    return (
        winners(events, settings)
        .groupBy(span.alias("window"), "category")
        .agg(rounded_mean("price").alias("price"))
        .select(start_ms(), "category", "price")
    )


def q5_thesis(events: DataFrame, settings: Any) -> DataFrame:
    """The auctions with the most bids of each sliding window that starts with the events or later.

    A stream does not know its first event; the settings know when it is, `base_time` (unless
    `first_event_number` makes the events begin later).
    """
    first = settings.base_time // EPOCH_MS * EPOCH_MS
    return hot_items(events, settings).where(f"window_start >= {first}")


def q7_thesis(events: DataFrame, settings: Any) -> DataFrame:
    """One bid with the highest price of its fixed window."""
    span = F.window("time", f"{settings.window_size_sec} seconds")
    best = "max(struct(price, -date_time, -auction AS auction, -bidder AS bidder))"
    return (
        bids(timed(events, settings))
        .groupBy(span.alias("window")).agg(F.expr(best).alias("best"))
        .select(start_ms(), F.expr("-best.auction AS auction"), "best.price",
                F.expr("-best.bidder AS bidder"))
    )


def q9_thesis(events: DataFrame, settings: Any) -> DataFrame:
    """The highest valid price of each auction that has one."""
    return winners(events, settings).select("auction", "price")
