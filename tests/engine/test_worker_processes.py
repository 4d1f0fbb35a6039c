"""The Python processes that a pipeline makes Spark start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.io import ReadFromSpark, WriteToSpark

#: What Spark may tell workers by their environment, depending on settings of a session.
BY_SETTINGS = ("SPARK_SIMPLIFIED_TRACEBACK", "SPARK_TRACEBACK_WITH_LOCALS", "SPARK_REUSE_WORKER")


@pytest.mark.spark
def test_rows_are_written_by_the_processes_that_made_them(spark: Any, tmp_path: Path) -> None:
    """Workers of another environment would be a second daemon, which imports Beam again."""
    p = beam.Pipeline(
        runner=headrace.SparkRunner(spark=spark),
        options=PipelineOptions(["--shards=2", "--progress=off"]),
    )
    rows = p | ReadFromSpark(spark.range(10)) | beam.Map(lambda row: row.id)
    rows | WriteToSpark(str(tmp_path / "out"), schema="value long")
    p.run().wait_until_finish()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 10
    environments = [
        child.environ() for child in psutil.Process().children(recursive=True)
        if "headrace.worker.daemon" in child.cmdline() and child.parent().name() == "java"
    ]
    told = {tuple(found.get(name) for name in BY_SETTINGS) for found in environments}
    assert len(told) == 1
