"""The Yahoo benchmark as a Spark engineer would write it: JSON, broadcast join, window, count."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_EVENT = (
    "user_id string, page_id string, ad_id string, ad_type string, event_type string, "
    "event_time bigint, ip_address string"
)


def campaigns(events: DataFrame, settings: Any) -> DataFrame:
    """Count views by campaign and window; columns campaign_id, window_start (ms), count."""
    return _counted(events.select(F.from_json("line", _EVENT).alias("event")), settings)


def campaigns_of_columns(events: DataFrame, settings: Any) -> DataFrame:
    """Count the same from the columns of the log, without JSON."""
    return _counted(events.select(F.struct("event_type", "ad_id", "event_time").alias("event")),
                    settings)  # fmt: skip


def _counted(events: DataFrame, settings: Any) -> DataFrame:
    delay_us = -(-settings.out_of_order * 1_000_000 // settings.rate) + 1_000
    views = (
        events.where("event.event_type = 'view'")
        .select("event.ad_id", F.timestamp_millis("event.event_time").alias("at"))
        .withWatermark("at", f"{delay_us} microseconds")
    )
    table = F.broadcast(_ads(events.sparkSession, settings))
    size = f"{settings.window_size_sec} seconds"
    return (
        views.join(table, "ad_id", "left")
        .withColumn("campaign_id", F.coalesce("campaign_id", F.lit("UNKNOWN AD")))
        .groupBy("campaign_id", F.window("at", size))
        .count()
        .select("campaign_id", F.unix_millis("window.start").alias("window_start"), "count")
    )


def _ads(spark: SparkSession, settings: Any) -> DataFrame:
    """The table from ads to campaigns, see the settings for how identifiers are made."""
    seed = settings.seed
    text = "format_string('%08x-%04x-4{kind}00-8000-000000000000', {number}, {seed})"
    campaign = f"(id + {seed}) % {settings.campaigns}"
    return spark.range(settings.campaigns * settings.ads_per_campaign).select(
        F.expr(text.format(kind="a", number="id", seed=seed % 65536)).alias("ad_id"),
        F.expr(text.format(kind="c", number=campaign, seed=seed % 65536)).alias("campaign_id"),
    )
