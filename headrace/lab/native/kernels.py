"""The application kernels on Spark's DataFrames.

Takes a DataFrame of the generator's events, streaming or not, and the settings (read by
attribute); gives the workload's columns. The two kernels that need order have two forms: over a
whole table Spark's window functions, which a stream does not allow; over a stream
`transformWithState`, which needs Spark's RocksDB state store.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.lab.native.kernels_ordered import BargainsInOrder, MatchesInOrder


def with_watermark(events: DataFrame, settings: Any) -> DataFrame:
    """Tell Spark how far events may be out of order: no further than a group of them lasts."""
    delay_ms = settings.out_of_order * 1_000 // settings.rate + 2  # Spark cuts to milliseconds
    return events.withWatermark("time", f"{delay_ms} milliseconds")


def fixed_window(window_ms: int) -> Any:
    """Give the fixed window of the event's time."""
    return F.window("time", f"{window_ms} milliseconds")


def network(events: DataFrame, settings: Any) -> DataFrame:
    """Which users act suspiciously often, on servers where they do so?"""
    there = (
        with_watermark(events, settings)
        .groupBy(fixed_window(settings.window_ms), "server", "user")
        .agg(F.count("*").alias("entries"))
        .where(F.col("entries") >= settings.server_threshold)
    )
    return (
        there.groupBy("window", "user")
        .agg(F.count("*").alias("servers"), F.sum("entries").alias("entries"))
        .where(F.col("entries") >= settings.user_threshold)
        .select(F.unix_millis("window.start").alias("start_ms"), "user", "servers", "entries")
    )


def twitter_nlp(events: DataFrame, settings: Any) -> DataFrame:
    """Which words has a tweet, how long are they, and how long on average?"""
    del settings
    words = F.regexp_extract_all(F.lower("text"), F.lit("[a-z0-9']+"), 0)
    split = events.select("number", words.alias("words"))
    lengths = F.transform("words", F.length)
    total = F.aggregate(lengths, F.lit(0), lambda sum_, length: sum_ + length)
    return split.select(
        "number",
        F.array_join("words", " ").alias("words"),
        F.array_join(lengths.cast("array<string>"), " ").alias("lengths"),
        F.when(F.size("words") > 0, total / F.size("words")).otherwise(0.0).alias("mean"),
    )


def twitter_cep(events: DataFrame, settings: Any) -> DataFrame:
    """When does an author write `run` tweets in a row with the same hash tags?"""
    found = F.regexp_extract_all(F.lower("text"), F.lit("#([a-z0-9_]+)"), 1)
    tags = F.array_join(F.array_sort(F.array_distinct(found)), " ")
    if events.isStreaming:
        return (
            with_watermark(events, settings)
            .select(
                F.pmod("author", F.lit(settings.partitions)).alias("partition"),
                F.unix_micros("time").alias("micros"), "number", "author", tags.alias("tags"),
                "time",
            )
            .groupBy("partition")
            .transformWithStateInPandas(
                MatchesInOrder(settings.slice_ms, settings.run),
                MatchesInOrder.OUTPUT, "Append", "EventTime",
            )
        )
    last = Window.partitionBy("author").orderBy("time", "number").rowsBetween(1 - settings.run, 0)
    return (
        events.select("author", tags.alias("tags"), "number", "time")
        .select(
            "author", "tags",
            F.first("number").over(last).alias("first"),
            F.col("number").alias("last"),
            F.count("*").over(last).alias("tweets"),
            F.min("tags").over(last).alias("least"),
            F.max("tags").over(last).alias("most"),
        )
        .where(f"tweets = {settings.run} and least = most and tags <> ''")
        .select("author", "tags", "first", "last")
    )


def finance(events: DataFrame, settings: Any) -> DataFrame:
    """Which quotes offer a stock below the average price of its last trades?"""
    if events.isStreaming:
        return (
            with_watermark(events, settings)
            .select(
                F.pmod(F.crc32("symbol"), F.lit(settings.partitions)).alias("partition"),
                F.unix_micros("time").alias("micros"),
                "number", "symbol", "kind", "price", "size", "time",
            )
            .groupBy("partition")
            .transformWithStateInPandas(
                BargainsInOrder(settings.slice_ms, settings.last),
                BargainsInOrder.OUTPUT, "Append", "EventTime",
            )
        )
    ordered = Window.partitionBy("symbol").orderBy("time", "number")
    # Trades and quotes apart in the frame: the last trades are a fixed number of rows there.
    alike = Window.partitionBy("symbol", "kind").orderBy("time", "number")
    recent = alike.rowsBetween(1 - settings.last, 0)
    is_trade = F.col("kind") == "trade"
    summed = events.select(
        "*",
        F.when(is_trade, F.sum(F.col("price") * F.col("size")).over(recent)).alias("paid_now"),
        F.when(is_trade, F.sum("size").over(recent)).alias("shares_now"),
    ).select(
        "*",
        F.last("paid_now", ignorenulls=True).over(ordered).alias("paid"),
        F.last("shares_now", ignorenulls=True).over(ordered).alias("shares"),
    )
    saved = F.expr("(paid - price * shares) * size div shares")
    return (
        summed.where(~is_trade & (F.col("paid") > F.col("price") * F.col("shares")))
        .select(
            "number", "symbol", "price",
            (F.col("paid") / F.col("shares")).alias("vwap"), saved.alias("index"),
        )
        .where(F.col("index") > 0)
    )


def pagerank(events: DataFrame, settings: Any) -> DataFrame:
    """How important is each page, by the links between pages?

    A query of Spark has no loop. A window's edges are gathered in one row, and the loop runs inside
    a Python function on them: one task per window, where the workload's blocks share the work.
    """
    code = F.col("source") * settings.vertices + F.col("target")
    graphs = (
        with_watermark(events, settings)
        .groupBy(fixed_window(settings.window_ms))
        .agg(F.collect_list(code).alias("links"))
        .select(F.unix_millis("window.start").alias("start_ms"), "links")
    )
    parameters = {
        name: getattr(settings, name)
        for name in ("vertices", "damping_percent", "tolerance", "rounds")
    }
    return graphs.mapInPandas(
        partial(_rank_graphs, **parameters), "start_ms long, vertex long, rank double, settled long"
    )


_ONE = 10**15  # ranks are whole numbers of 1 / _ONE: exact in floats too


def _rank_graphs(frames: Iterator[pd.DataFrame], **parameters: Any) -> Iterator[pd.DataFrame]:
    for frame in frames:
        for start, links in zip(frame["start_ms"], frame["links"], strict=True):
            ranks, settled = _settle(np.asarray(links, np.int64), **parameters)
            yield pd.DataFrame(
                {
                    "start_ms": start,
                    "vertex": np.arange(len(ranks)),
                    "rank": ranks / _ONE,
                    "settled": settled,
                }
            )


def _settle(
    links: Any, vertices: int, damping_percent: int, tolerance: float, rounds: int
) -> tuple[Any, int]:
    sources, targets = np.divmod(links, vertices)
    leaving = np.bincount(sources, minlength=vertices)
    first = _ONE // vertices
    ranks = np.full(vertices, first, np.int64)
    for number in range(1, rounds + 1):
        shares = (ranks // np.maximum(leaving, 1))[sources]
        arriving = np.bincount(targets, weights=shares, minlength=vertices).astype(np.int64)
        arriving += int(ranks[leaving == 0].sum()) // vertices
        fresh = ((100 - damping_percent) * first + damping_percent * arriving) // 100
        change = int(np.abs(fresh - ranks).sum())
        ranks = fresh
        if change <= int(tolerance * _ONE):
            return ranks, number
    return ranks, 0
