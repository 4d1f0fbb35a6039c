"""The scalability graphs on Spark's DataFrames; see `headrace.lab.native.kernels`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.lab.native.kernels import fixed_window, with_watermark

_FACTOR = 48_271
_LOW_BITS = 2**31 - 1


def stateless(events: DataFrame, settings: Any) -> DataFrame:
    """Work on the chosen elements."""
    return _chosen(events, settings).select(
        "number", _worked(F.col("value"), settings.work).alias("worked")
    )


def keyed(events: DataFrame, settings: Any) -> DataFrame:
    """Count and add by window and key."""
    return _first(events, settings).select(
        F.unix_millis("window.start").alias("start_ms"), "key", "count", "total"
    )


def shuffle(events: DataFrame, settings: Any) -> DataFrame:
    """Count and add by window and key, then by window and group of totals."""
    low = F.col("total").bitwiseAND(_LOW_BITS)
    second = (
        _first(events, settings)
        .groupBy("window", (F.col("total") % settings.groups).alias("group"))
        .agg(
            F.count("*").alias("keys"),
            F.sum("count").alias("count"),
            F.sum(_worked(low, settings.work)).alias("total"),
        )
    )
    return second.select(
        F.unix_millis("window.start").alias("start_ms"), "group", "keys", "count", "total"
    )


def _first(events: DataFrame, settings: Any) -> DataFrame:
    return (
        with_watermark(_chosen(events, settings), settings)
        .groupBy(fixed_window(settings.window_ms), "key")
        .agg(
            F.count("*").alias("count"),
            F.sum(_worked(F.col("value"), settings.work)).alias("total"),
        )
    )


def _chosen(events: DataFrame, settings: Any) -> DataFrame:
    return events.where(F.col("number") % settings.selectivity == 0)


def _worked(value: Column, times: int) -> Column:
    """Multiply so many times: a fold over a constant array, Spark's only loop in an expression."""
    return F.aggregate(
        F.array_repeat(F.lit(0), times),
        value.cast("long"),
        lambda so_far, _: (so_far * _FACTOR).bitwiseAND(_LOW_BITS),
    )
