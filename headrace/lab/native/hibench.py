"""The HiBench questions as a Spark engineer would write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def identity(events: DataFrame, settings: Any) -> DataFrame:
    """Give event_time and time_now of every record.

    `current_timestamp` stands still during a batch, so Java's clock is asked for every row.
    """
    now = F.expr("cast(java_method('java.lang.System', 'currentTimeMillis') as bigint)")
    return events.select(_field(0).cast("bigint").alias("event_time"), now.alias("time_now"))


def repartition(events: DataFrame, settings: Any) -> DataFrame:
    """Send every record on to the next partition in turn."""
    tasks = events.sparkSession.sparkContext.defaultParallelism
    return events.select(F.col("line").alias("record")).repartition(tasks)


def wordcount(events: DataFrame, settings: Any) -> DataFrame:
    """Count the records of each address up to each record; columns ip, time, count.

    A stream's rolling count needs state of one's own, which Spark's SQL has not; a table has an
    order to count in.
    """
    if events.isStreaming:
        return _counted_on(_ip_and_time(events))
    time = _field(0).cast("bigint").alias("time")
    numbered = events.select(_field(1).alias("ip"), time, "number")
    order = Window.partitionBy("ip").orderBy("number")
    count = F.row_number().over(order).cast("bigint").alias("count")
    return numbered.select("ip", "time", count)


def wordcount_of_columns(events: DataFrame, settings: Any) -> DataFrame:
    """Count the same on a stream of the columns of the log, without lines to split."""
    return _counted_on(events.select("ip", F.col("timestamp").alias("time")))


def _counted_on(records: DataFrame) -> DataFrame:
    return records.groupBy("ip").applyInPandasWithState(
        _count_on, "ip string, time bigint, count bigint", "seen bigint", "append", "NoTimeout"
    )


def fixwindow(events: DataFrame, settings: Any) -> DataFrame:
    """Count by address and window; columns ip, window_start, min_time, count (times in ms)."""
    return _by_window(_ip_and_time(events), settings)


def fixwindow_of_columns(events: DataFrame, settings: Any) -> DataFrame:
    """Count the same from the columns of the log, without lines to split."""
    return _by_window(events.select("ip", F.col("timestamp").alias("time")), settings)


def _by_window(records: DataFrame, settings: Any) -> DataFrame:
    delay_us = -(-settings.out_of_order * 1_000_000 // settings.rate) + 1_000
    records = records.withColumn("at", F.timestamp_millis("time"))
    return (
        records.withWatermark("at", f"{delay_us} microseconds")
        .groupBy("ip", F.window("at", f"{settings.window_size_sec} seconds"))
        .agg(F.min("time").alias("min_time"), F.count("*").alias("count"))
        .select("ip", F.unix_millis("window.start").alias("window_start"), "min_time", "count")
    )


def _field(place: int) -> Column:
    return F.split("line", ",", 3)[place]


def _ip_and_time(events: DataFrame) -> DataFrame:
    return events.select(_field(1).alias("ip"), _field(0).cast("bigint").alias("time"))


def _count_on(key: tuple[str], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Number the records of one address that a batch brings, from where the last batch ended."""
    seen = state.get[0] if state.exists else 0
    for frame in frames:
        yield frame.assign(count=range(seen + 1, seen + len(frame) + 1))
        seen += len(frame)
    state.update((seen,))
