"""The stateful count on Spark alone: Python code in `transformWithState`, state in RocksDB.

Does what `pipelines.state_and_timers` does, by the means Spark gives: keys are (key, window), state
is one value, a timer at the window's end emits and clears. A batch's rows of one key come in one
call, so state is read and written once per key and batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from headrace.lab.experiments.streaming.data import CLOSING_KEY, START_SECONDS

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
OUTPUT = "key long, bucket long, count long"


class Variant(Enum):
    """How rows come to the Python code."""

    ROW = "row"  # as Row objects
    PANDAS = "pandas"  # as data frames


class Count(StatefulProcessor):  # type: ignore[misc]
    """Counts until the window ends."""

    variant = Variant.ROW

    def __init__(self, window_seconds: int) -> None:
        self._window_seconds = window_seconds

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002 (Spark's form)
        fresh = sum(map(self._size, rows))
        found = self._count.get()
        if found is None:
            end = START_SECONDS + (key[1] + 1) * self._window_seconds
            self._handle.registerTimer(int(end) * 1000)
        self._count.update(((found[0] if found else 0) + fresh,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: ARG002, E501 (Spark's form)
        (count,) = self._count.get()
        self._count.clear()
        yield self._row(int(key[0]), int(key[1]), int(count))

    def close(self) -> None:
        pass

    def _size(self, rows: Any) -> int:
        return len(rows) if self.variant is Variant.PANDAS else 1

    def _row(self, key: int, bucket: int, count: int) -> Any:
        if self.variant is Variant.PANDAS:
            return pd.DataFrame({"key": [key], "bucket": [bucket], "count": [count]})
        return Row(key=key, bucket=bucket, count=count)


class CountFrames(Count):
    """The same over data frames."""

    variant = Variant.PANDAS


def run(
    spark: Any, frame: Any, folder: Path, variant: Variant, window_seconds: int
) -> dict[str, int]:
    """Run over all that is there; give the answer."""
    before = spark.conf.get(PROVIDER_SETTING)
    spark.conf.set(PROVIDER_SETTING, ROCKSDB)
    try:
        grouped = frame.withWatermark("at", "0 seconds").groupBy("key", "bucket")
        if variant is Variant.PANDAS:
            frames = CountFrames(window_seconds)
            made = grouped.transformWithStateInPandas(frames, OUTPUT, "Append", "EventTime")
        else:
            rows = Count(window_seconds)
            made = grouped.transformWithState(rows, OUTPUT, "Append", "EventTime")
        answer = {"groups": 0, "rows": 0, "mixed": 0}

        def tally(batch: Any, _: int) -> None:
            ours = batch.where(f"key <> {CLOSING_KEY}")
            (told,) = ours.selectExpr(
                "count(*)", "coalesce(sum(count), 0)",
                "coalesce(sum(count * (key + 1) * (bucket + 1)), 0)",
            ).collect()
            for name, number in zip(answer, told, strict=True):
                answer[name] += number

        writer = made.writeStream.foreachBatch(tally).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "native")).start()
        query.awaitTermination()
        return answer
    finally:
        spark.conf.set(PROVIDER_SETTING, before)
