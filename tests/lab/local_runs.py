"""Runs a workload on Beam's local runner, and writes the log that its oracle reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.data.generator import Generator
from headrace.lab.workload import Row, Workload, find

# The runner's workers are threads of this process, and pickle finds a module's function by name.
_kept: list[Row] = []


def keep(row: Row) -> None:
    """Keep a row of the run that is going on."""
    _kept.append(row)


def rows_on_beam(
    workload: Workload, settings: Any, elements: Iterable[Any], micros: Iterable[int]
) -> list[Row]:
    """Run the pipeline over elements with their times; give its rows."""
    stamped = [
        TimestampedValue(element, Timestamp(micros=time))
        for element, time in zip(elements, micros, strict=True)
    ]
    _kept.clear()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        (
            pipeline
            | beam.Create(stamped)
            | "Query" >> workload.build(settings)
            | "Keep" >> beam.Map(keep)
        )
    return list(_kept)


def generated_rows(workload: Workload, settings: Any) -> list[Row]:
    """Run the pipeline over all events of its generator."""
    made = workload.generator(settings)
    return rows_on_beam(workload, settings, *made.elements(0, made.events))


def write_log(generator: Generator, folder: Path) -> str:
    """Write all events in two files; give the glob that finds them."""
    half = generator.events // 2
    for name, (start, count) in {"a": (0, half), "b": (half, generator.events - half)}.items():
        table = pa.Table.from_batches([generator.batch(start, count)])
        pq.write_table(table, folder / f"{name}.parquet")
    return str(folder / "*.parquet")


def oracle_rows(workload: Workload, settings: Any, folder: Path) -> list[Row]:
    """Write the log of the workload's generator into a folder; ask the oracle about it."""
    log = write_log(workload.generator(settings), folder)
    rows: list[Row] = find(workload.oracle)(log, settings)
    return rows


def native_rows(workload: Workload, settings: Any, folder: Path, spark: Any) -> list[Row]:
    """Ask Spark's DataFrames about the log in a folder, which `oracle_rows` wrote."""
    assert isinstance(workload.native, str)
    events = _small(spark).read.parquet(f"{folder}/*.parquet")
    answer = find(workload.native)(events, settings)
    assert answer.columns == [column.name for column in workload.columns]
    kinds = [field.dataType.typeName() for field in answer.schema.fields]
    assert kinds == [column.kind.value for column in workload.columns]
    return [tuple(row) for row in answer.collect()]


def streamed_rows(
    workload: Workload, settings: Any, folder: Path, spark: Any
) -> tuple[list[Row], int]:
    """Stream the log in a folder through Spark's DataFrames, a file at a time.

    Gives the rows and the number of batches that brought events. Files are read by their names'
    order, which is made their order of age.
    """
    assert isinstance(workload.native, str)
    for age, path in enumerate(sorted(folder.glob("*.parquet"))):
        os.utime(path, (1_700_000_000 + age,) * 2)
    session = _small(spark)
    pattern = f"{folder}/*.parquet"
    reader = session.readStream.schema(session.read.parquet(pattern).schema)
    events = reader.option("maxFilesPerTrigger", 1).parquet(pattern)
    query = (
        find(workload.native)(events, settings)
        .writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = [tuple(row) for row in session.table("streamed").collect()]
    return rows, sum(progress.numInputRows > 0 for progress in query.recentProgress)


def _small(spark: Any) -> Any:
    """The shared session with settings of its own: two shards instead of hundreds."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session
