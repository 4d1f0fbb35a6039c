"""What the native NEXMark questions share: event time, kinds of events, winning bids, formats.

Takes DataFrames of logged events, streaming or not, gives DataFrames. All of it is for append mode.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: A bid names an auction at most so many events before the auction comes.
LEAD_EVENTS = 200
_DAY_MS = 86_400_000


def largest_delay_us(settings: Any) -> int:
    """Give the longest time between two events of one generator, in microseconds."""
    rate: int = min(settings.first_event_rate, settings.next_event_rate)
    unit = 60_000_000 if settings.rate_unit == "PER_MINUTE" else 1_000_000
    return max((unit + rate // 2) // rate, 1) * int(settings.num_event_generators)


def watermark_delay(settings: Any) -> str:
    """Say how far the watermark stays behind: the span of an out-of-order group, and 1 ms.

    Spark takes what is exactly as old as the watermark for late, and many events share a
    millisecond: without the one, a batch would drop events as old as the last one's newest.
    """
    span_us = (settings.out_of_order_group_size - 1) * largest_delay_us(settings)
    behind = -(-span_us // 1_000) + 1 + settings.watermark_holdback_sec * 1_000
    return f"{behind} milliseconds"


def timed(events: DataFrame, settings: Any) -> DataFrame:
    """Give the events with their watermark."""
    return events.withWatermark("time", watermark_delay(settings))


def bids(events: DataFrame) -> DataFrame:
    """Give the fields of bids, and `time`."""
    return events.where("kind = 2").select("time", "bid.*")


def people(events: DataFrame) -> DataFrame:
    """Give the fields of persons, and `time`."""
    return events.where("kind = 0").select("time", "person.*")


def auctions(events: DataFrame) -> DataFrame:
    """Give the fields of auctions, and `time`."""
    return events.where("kind = 1").select("time", "auction.*")


def winners(events: DataFrame, settings: Any) -> DataFrame:
    """Give the winning bids: auction, closes, expires, seller, category, price, bid_time, bidder.

    The event time of an auction is its last moment, `closes`; it is never late, since the watermark
    follows the bids. So the join can free an auction when the watermark passes `closes`, and the
    aggregation can answer then. Bids are freed when no auction can still ask for them: an auction
    lasts two times its mean at most, and bids come before it by as much or by LEAD_EVENTS at most.
    """
    offered = auctions(events).selectExpr(
        "timestamp_millis(expires - 1) AS closes", "id", "expires", "reserve", "seller", "category"
    ).withWatermark("closes", "0 seconds")
    made = bids(timed(events, settings)).select("time", "auction", "bidder", "price", "date_time")
    within = F.expr(f"""
        auction = id AND price >= reserve
        AND time <= closes AND time > closes - INTERVAL {_reach_ms(settings)} MILLISECONDS
    """)
    return (
        offered.join(made, within)
        .groupBy("auction", "closes", "expires", "seller", "category")
        .agg(F.expr("max(struct(price, -date_time AS earliness, -bidder AS bidder))").alias("best"))
        .selectExpr(
            "auction", "closes", "expires", "seller", "category", "best.price AS price",
            "-best.earliness AS bid_time", "-best.bidder AS bidder",
        )
    )


def hot_items(events: DataFrame, settings: Any) -> DataFrame:
    """Give (window_start, auction, num): per sliding window all auctions with the most bids."""
    span = F.window("time", *sliding(settings))
    counted = bids(timed(events, settings)).groupBy(span.alias("window"), "auction").count()
    return (
        counted.groupBy("window")
        .agg(F.max("count").alias("most"),
             F.expr("collect_list(struct(auction, count))").alias("auctions"))
        .select(start_ms(), "most", F.inline("auctions"))
        .where("count = most")
        .selectExpr("window_start", "auction", "count AS num")
    )


def sliding(settings: Any) -> tuple[str, str]:
    """Give size and period of sliding windows, as Spark reads them."""
    return f"{settings.window_size_sec} seconds", f"{settings.window_period_sec} seconds"


def _reach_ms(settings: Any) -> int:
    """Give the longest time between a bid and the end of its auction."""
    delay = largest_delay_us(settings)
    mean: int = settings.num_in_flight_auctions * 50 // 3 * delay
    return -(-(2 * mean + max(2 * mean, LEAD_EVENTS * delay)) // 1_000) + 2


def rounded_mean(column: str) -> Column:
    """Give the mean as a whole number, halves up."""
    return F.floor(F.avg(column) + 0.5).cast("long")


def start_ms(window: str = "window") -> Column:
    """Give the start of a window in milliseconds."""
    return F.unix_millis(F.col(f"{window}.start")).alias("window_start")


def iso(ms: Column) -> Column:
    """Write milliseconds since 1970 as ISO 8601 in UTC, whatever the session's time zone is."""
    day = F.date_from_unix_date((ms / F.lit(_DAY_MS)).cast("int")).cast("string")
    rest = ms % _DAY_MS
    return F.format_string(
        "%sT%02d:%02d:%02d.%03dZ", day, F.floor(rest / 3_600_000),
        F.floor(rest / 60_000) % 60, F.floor(rest / 1_000) % 60, rest % 1_000,
    )


def as_json(events: DataFrame) -> DataFrame:
    """Give the text of each event, with the field names that JSON has."""
    kinds = {
        "person": "id:bigint,name:string,emailAddress:string,creditCard:string,city:string,"
        "state:string,dateTime:bigint,extra:string",
        "auction": "id:bigint,itemName:string,description:string,initialBid:bigint,"
        "reserve:bigint,dateTime:bigint,expires:bigint,seller:bigint,category:bigint,"
        "extra:string",
        "bid": "auction:bigint,bidder:bigint,price:bigint,dateTime:bigint,extra:string",
    }
    texts = [F.to_json(F.col(kind).cast(f"struct<{fields}>")) for kind, fields in kinds.items()]
    return events.select(F.coalesce(*texts).alias("event"))
