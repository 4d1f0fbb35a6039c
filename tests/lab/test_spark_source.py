"""A generator's events as a streaming DataFrame."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.lab.data.spark_source import _Reader, stream
from headrace.lab.workloads.windowed import SETTINGS, generator


def reader(events: int, rows: int = 100, *, pace: bool = False) -> _Reader:
    made = generator(SETTINGS(events=events))
    told = base64.b64encode(pickle.dumps(made)).decode()
    return _Reader(
        {"generator": told, "rows_per_batch": str(rows), "partitions": "3", "pace": str(pace)}
    )


def test_offsets_grow_by_a_batch_until_the_events_end() -> None:
    made = reader(250)
    start, seen = made.initialOffset(), []
    for _ in range(5):
        start = made.latestOffset(start)
        seen.append(start["number"])
    assert seen == [100, 200, 250, 250, 250]


def test_a_reader_made_anew_goes_on_where_spark_says() -> None:
    assert reader(250).latestOffset({"number": 120}) == {"number": 220}


def test_paced_events_are_offered_when_they_are_due() -> None:
    made = reader(1_000_000, 1_000_000, pace=True)
    assert made.latestOffset(made.initialOffset())["number"] < 1_000_000


def test_the_partitions_of_a_batch_are_its_events_each_once() -> None:
    made = reader(1_000)
    parts = made.partitions({"number": 100}, {"number": 350})
    tables = [pa.Table.from_batches(list(made.read(part))) for part in parts]
    assert len(parts) == 3
    numbers = pa.concat_tables(tables)["number"].to_pylist()
    assert numbers == list(range(100, 350))
    assert made.partitions({"number": 7}, {"number": 7}) == []


@pytest.mark.spark
def test_spark_reads_the_whole_stream_with_the_columns_of_the_schema(
    spark: Any, tmp_path: Path
) -> None:
    made = generator(SETTINGS(events=5_000))
    frame = stream(spark, made, rows_per_batch=2_000)
    assert frame.columns == made.schema.names
    query = (
        frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        .start(str(tmp_path / "rows"))
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(str(tmp_path / "rows"))
    found = rows.selectExpr("count(*)", "count(distinct number)", "max(number)").first()
    assert tuple(found) == (5_000, 5_000, 4_999)
