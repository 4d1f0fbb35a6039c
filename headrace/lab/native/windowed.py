"""The windowed questions as a Spark engineer would write them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def aggregation(events: DataFrame, settings: Any) -> DataFrame:
    """Average by key and window; columns key, window_start (ms), average, count."""
    return _average(_watermarked(events, settings), settings)


def join(events: DataFrame, settings: Any) -> DataFrame:
    """Join both streams by key and window; columns key, window_start (ms), higher, difference."""
    return _pairs(_watermarked(events, settings), settings)


def join_by_arrival(events: DataFrame, settings: Any) -> DataFrame:
    """Join both streams by key and window of arrival, which for Spark is the start of the batch."""
    return _pairs(_stamped(events), settings)


def _watermarked(events: DataFrame, settings: Any) -> DataFrame:
    delay_us = -(-settings.out_of_order * 1_000_000 // settings.rate) + 1
    return events.withColumn("at", F.col("time")).withWatermark("at", f"{delay_us} microseconds")


def _stamped(events: DataFrame) -> DataFrame:
    return events.withColumn("at", F.current_timestamp()).withWatermark("at", "0 seconds")


def _window(settings: Any) -> Column:
    size, slide = f"{settings.window_size_sec} seconds", f"{settings.slide_sec} seconds"
    return F.window("at", size, slide)


def _average(events: DataFrame, settings: Any) -> DataFrame:
    return (
        events.groupBy("key", _window(settings))
        .agg(F.avg("value").alias("average"), F.count("*").alias("count"))
        .select("key", F.unix_millis("window.start").alias("window_start"), "average", "count")
    )


def _pairs(events: DataFrame, settings: Any) -> DataFrame:
    placed = events.select("key", "value", "stream", _window(settings).alias("window"))
    first = placed.where("stream = 0").select("key", "window", F.col("value").alias("a"))
    second = placed.where("stream = 1").select("key", "window", F.col("value").alias("b"))
    return first.join(second, ["key", "window"]).select(
        "key",
        F.unix_millis("window.start").alias("window_start"),
        F.greatest("a", "b").alias("higher"),
        F.abs(F.col("a") - F.col("b")).alias("difference"),
    )
