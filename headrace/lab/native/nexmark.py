"""The NEXMark questions, asked of Spark's DataFrames: what a Spark engineer would write.

Every function takes a DataFrame of logged events (streaming or not) and the settings, and gives the
workload's columns. In streaming the query runs in append mode: a row is final when it leaves.

Two things differ from Beam whatever one writes:

* Spark's watermark never goes past the newest event, so windows that are open at the end of the
  input stay open. A log that is to be compared ends with the events of `nexmark_closing`, unless
  the question is stateless (q0, q1, q2, q13, q15, q16), which would answer for those events too.
* A join or an aggregation that is fed by another one answers when the *joined* watermark allows,
  which may be later than Beam's answer, but is the same.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.lab.native.nexmark_refusals import Q12
from headrace.lab.native.nexmark_sellers import SESSION_SETTINGS, q6, q6_thesis
from headrace.lab.native.nexmark_stream import (
    as_json,
    auctions,
    bids,
    hot_items,
    iso,
    people,
    rounded_mean,
    sliding,
    start_ms,
    timed,
    winners,
)
from headrace.lab.native.nexmark_thesis import q4_thesis, q5_thesis, q7_thesis, q9_thesis

__all__ = [
    "SESSION_SETTINGS", "q0", "q1", "q2", "q3", "q4", "q4_thesis", "q5", "q5_thesis", "q6",
    "q6_thesis", "q7", "q7_thesis", "q8", "q9", "q9_thesis", "q10", "q11", "q12", "q12_thesis",
    "q13", "q14", "q15", "q16",
]

#: Named like questions, so that whoever looks for the answer finds the reason.
q12 = q12_thesis = Q12


def q0(events: DataFrame, settings: Any) -> DataFrame:
    """Every event, as JSON text."""
    del settings
    return as_json(events)


def q1(events: DataFrame, settings: Any) -> DataFrame:
    """Every bid with its price in another currency, cut to whole cents."""
    del settings
    return bids(events).selectExpr(
        "auction", "bidder", "price * 89 div 100 AS price", "date_time", "extra"
    )


def q2(events: DataFrame, settings: Any) -> DataFrame:
    """Auction and price of the bids on every so-many-th auction."""
    wanted = f"auction % {settings.auction_skip} = 0"
    return bids(events).where(wanted).select("auction", "price")


def q3(events: DataFrame, settings: Any) -> DataFrame:
    """Who sells in category 10 and lives in Oregon, Idaho or California.

    A person and an auction meet if less than `max_auctions_waiting_time` lies between them. Beam's
    question forgets a seller after so long a *silence*, which a join cannot say. The answers are
    the same where all auctions of a seller are that close to the seller's arrival, and the
    generator's are above some 84 events per second.
    """
    wait = f"INTERVAL {settings.max_auctions_waiting_time} SECONDS"
    stream = timed(events, settings)
    sellers = people(stream).where("state IN ('OR', 'ID', 'CA')").selectExpr(
        "time AS came", "id AS person", "name", "city", "state"
    )
    offered = auctions(stream).where("category = 10").selectExpr("time AS opened", "id", "seller")
    meet = F.expr(f"person = seller AND opened < came + {wait} AND opened > came - {wait}")
    return sellers.join(offered, meet).select("name", "city", "state", "id")


def q4(events: DataFrame, settings: Any) -> DataFrame:
    """The mean winning price per category, in sliding windows of the last moment of the auction."""
    span = F.window("closes", *sliding(settings))
    return (
        winners(events, settings)
        .groupBy(span.alias("window"), "category")
        .agg(rounded_mean("price").alias("price"))
        .select(start_ms(), "category", "price")
    )


def q5(events: DataFrame, settings: Any) -> DataFrame:
    """The auctions with the most bids of each sliding window, and how many they have."""
    return hot_items(events, settings)


def q7(events: DataFrame, settings: Any) -> DataFrame:
    """All bids with the highest price of their fixed window.

    An aggregation cannot keep "all with the maximum", so bids are gathered by price first; every
    bid of an open window is state. Beam's broadcast of the maximum waits with as many.
    """
    span = F.window("time", f"{settings.window_size_sec} seconds")
    record = "collect_list(struct(auction, bidder, price, date_time, extra))"
    return (
        bids(timed(events, settings))
        .groupBy(span.alias("window"), "price").agg(F.expr(record).alias("bids"))
        .groupBy("window").agg(F.max_by("bids", "price").alias("bids"))
        .select(start_ms(), F.inline("bids"))
    )


def q8(events: DataFrame, settings: Any) -> DataFrame:
    """The people who opened an auction in the same fixed window in which they came, per auction."""
    span = F.window("time", f"{settings.window_size_sec} seconds")
    stream = timed(events, settings)
    arrived = people(stream).select(span.alias("came"), "id", "name")
    offered = auctions(stream).select(span.alias("opened"), "seller", "reserve")
    return arrived.join(offered, F.expr("id = seller AND came = opened")).select(
        "id", "name", "reserve"
    )


def q9(events: DataFrame, settings: Any) -> DataFrame:
    """The winning bid of each auction."""
    return winners(events, settings).select("auction", "bidder", "price", "bid_time", "expires")


def q10(events: DataFrame, settings: Any) -> DataFrame:
    """The last moment of each fixed window that has events, and the message that it is written."""
    span = F.window("time", f"{settings.window_size_sec} seconds")
    return (
        timed(events, settings).groupBy(span.alias("window")).count()
        .select(iso(F.unix_millis("window.end") - 1).alias("moment"))
        .select("moment", F.concat(F.lit("written for timestamp "), "moment").alias("message"))
    )


def q11(events: DataFrame, settings: Any) -> DataFrame:
    """The sessions of each bidder: how many bids, first moment, end."""
    return (
        bids(timed(events, settings))
        .groupBy(_session(settings.window_size_sec), "bidder").count()
        .selectExpr("bidder", "count", "unix_millis(session.start) AS start",
                    "unix_millis(session.end + INTERVAL 1 MICROSECOND) AS end")
    )


def q13(events: DataFrame, settings: Any) -> DataFrame:
    """Every bid, with the text that the side table has for its bidder."""
    rows = settings.side_input_row_count
    side = events.sparkSession.range(rows).selectExpr("id AS key", "CAST(id AS STRING) AS text")
    return bids(events).join(F.broadcast(side), F.expr(f"bidder % {rows} = key")).selectExpr(
        "auction", "bidder", "price", "date_time", "text AS extra"
    )


def q14(events: DataFrame, settings: Any) -> DataFrame:
    """Every bid, with the side table's text for its bidder and the bounds of its session."""
    first = iso(F.unix_millis("session.start"))
    last = iso(F.unix_millis(F.expr("session.end + INTERVAL 1 MICROSECOND")))
    key = (F.col("bidder") % settings.side_input_row_count).cast("string")
    return (
        bids(timed(events, settings))
        .groupBy(_session(settings.session_gap_sec), "bidder")
        .agg(F.expr("collect_list(struct(auction, price, date_time))").alias("bids"))
        .select("bidder", F.concat_ws(":", key, first, last).alias("extra"), F.inline("bids"))
        .select("auction", "bidder", "price", "date_time", "extra")
    )


def q15(events: DataFrame, settings: Any) -> DataFrame:
    """Every event, as JSON text, after grouping by random keys and back; batch only."""
    bucket = F.floor(F.rand() * settings.num_key_buckets).alias("bucket")
    grouped = events.select(bucket, F.struct("person", "auction", "bid").alias("event"))
    return as_json(
        grouped.groupBy("bucket").agg(F.collect_list("event").alias("events"))
        .select(F.inline("events"))
    )


def q16(events: DataFrame, settings: Any) -> DataFrame:
    """Every event, as JSON text, after a reshuffle."""
    del settings
    partitions = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return as_json(events.repartition(partitions))


def _session(gap_sec: int) -> Any:
    """Give Spark's session windows, which join bids exactly the gap apart, shortened to Beam's.

    Beam's do not join those. Spark counts in microseconds, so a gap that is one shorter has Beam's
    sessions; their ends are one later than Spark says.
    """
    return F.session_window("time", f"{gap_sec * 1_000_000 - 1} microseconds").alias("session")
