"""The lab's questions as a Spark engineer would write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def filter_scores(events: DataFrame, settings: Any) -> DataFrame:
    """Keep the events whose score can be divided; columns score, key, number."""
    scored = events.select((F.col("number") * 31 + F.col("key")).alias("score"), "key", "number")
    return scored.where(F.col("score") % settings.one_in == 0)


def count(events: DataFrame, settings: Any) -> DataFrame:
    """Count by window and key; columns window_start (ms), key, count, last."""
    return _counted(events, F.window("time", f"{settings.window_ms} milliseconds"))


def sliding(events: DataFrame, settings: Any) -> DataFrame:
    """Count by sliding window and key; columns window_start (ms), key, count, last."""
    size, period = settings.window_ms * settings.panes, settings.window_ms
    return _counted(events, F.window("time", f"{size} milliseconds", f"{period} milliseconds"))


def _counted(events: DataFrame, window: Any) -> DataFrame:
    return (
        events.withWatermark("time", "0 seconds")
        .groupBy(window.alias("window"), "key")
        .agg(F.count("*").alias("count"), F.max("number").alias("last"))
        .select(F.unix_millis("window.start").alias("window_start"), "key", "count", "last")
    )


def state(events: DataFrame, settings: Any) -> DataFrame:
    """Add the numbers of a key up; columns key, count, total, number at every Nth event.

    `applyInPandasWithState`: a key's state travels with its rows, where `transformWithState` asks
    for it over a socket.
    """
    return events.select("key", "number").groupBy("key").applyInPandasWithState(
        running(settings.every), "key long, count long, total long, number long",
        "count long, total long", "append", "NoTimeout",
    )


def running(every: int) -> Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """Make the function that adds up the rows of a key in a batch."""

    def add_up(key: Any, frames: Iterator[pd.DataFrame], so_far: Any) -> Iterator[pd.DataFrame]:
        count, total = so_far.get if so_far.exists else (0, 0)
        # A shuffle gives the rows of a batch in any order; no batch has older ones than the last.
        numbers = np.sort(np.concatenate([frame["number"].to_numpy() for frame in frames]))
        counts, totals = np.arange(len(numbers)) + count + 1, np.cumsum(numbers) + total
        so_far.update((int(counts[-1]), int(totals[-1])))
        told = counts % every == 0
        yield pd.DataFrame({
            "key": np.full(int(told.sum()), key[0]), "count": counts[told],
            "total": totals[told], "number": numbers[told],
        })

    return add_up
