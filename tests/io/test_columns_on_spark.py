"""Pipelines over columns on Spark: the rows that objects give, from a Parquet file to a sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.experiments.columns.cases import CASES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ROWS = 20_000


@pytest.mark.parametrize("name", ["q1", "yahoo"])
def test_columns_on_and_off_and_compared_give_the_same_rows(
    spark: Any, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    pq.write_table(case.table(ROWS), tmp_path / "rows.parquet")
    frame = spark.read.schema(case.words.replace(" not null", "")).parquet(
        str(tmp_path / "rows.parquet")
    )
    found = []
    for flag in ("--columns=on", "--columns=off", "--verify_columns"):
        runner = headrace.SparkRunner(spark=spark)
        with beam.Pipeline(runner, PipelineOptions(["--progress=off", flag])) as pipeline:
            read = ReadFromSpark(frame, timestamp="at" if case.timed else None)
            write = WriteToSpark(
                function=lambda made: found.append(sorted(map(tuple, made.collect()))),
                schema=case.schema.replace(" not null", ""),
            )
            case.steps(pipeline | read) | write
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == (ROWS if name == "q1" else 100)
