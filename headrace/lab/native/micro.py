"""The micro benchmarks on Spark's DataFrames; see `headrace.lab.native.kernels`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.lab.native.kernels import with_watermark


def pardo_chain(events: DataFrame, settings: Any) -> DataFrame:
    """Hand every element on; Spark's optimiser makes one projection of them all."""
    items = events.select("number", F.unix_micros("time").alias("time"), "value")
    for _ in range(settings.stages):
        items = items.select("number", "time", "value")
    return items


def group_by_key(events: DataFrame, settings: Any) -> DataFrame:
    """Group elements by window and key, and split the groups."""
    windows = F.window(
        "time", f"{settings.window_ms} milliseconds", f"{settings.slide_ms} milliseconds"
    )
    grouped = (
        with_watermark(events, settings)
        .groupBy(windows, (F.col("number") % settings.keys).alias("key"))
        .agg(F.collect_list(F.struct("number", "value")).alias("items"))
    )
    return grouped.select(
        F.unix_millis("window.start").alias("start_ms"), "key", F.inline("items")
    )
