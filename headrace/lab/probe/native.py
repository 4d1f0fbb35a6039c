"""The lab's question as a Spark engineer would write it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def count(events: DataFrame, settings: Any) -> DataFrame:
    """Count by window and key; columns window_start (ms), key, count, last."""
    window = F.window("time", f"{settings.window_ms} milliseconds")
    return (
        events.withWatermark("time", "0 seconds")
        .groupBy(window.alias("window"), "key")
        .agg(F.count("*").alias("count"), F.max("number").alias("last"))
        .select(F.unix_millis("window.start").alias("window_start"), "key", "count", "last")
    )
