"""Beam's own file sources and sinks, as they are, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from headrace.runner import SparkRunner

pytestmark = pytest.mark.spark

PEOPLE = [{"name": "ada", "born": 1815}, {"name": "alan", "born": 1912}]
AVRO_SCHEMA = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "born", "type": "int"}],
}


@pytest.fixture
def pipeline(spark: Any) -> beam.Pipeline:
    return beam.Pipeline(
        runner=SparkRunner(spark=spark), options=PipelineOptions(["--shards=2", "--progress=off"])
    )


def test_text_written_is_text_read(pipeline: beam.Pipeline, spark: Any, tmp_path: Path) -> None:
    lines = [f"line {i}" for i in range(500)]
    with pipeline as p:
        p | beam.Create(lines) | beam.io.WriteToText(str(tmp_path / "text"), num_shards=3)
    assert len(list(tmp_path.glob("text-*-of-00003"))) == 3
    found = [line for path in tmp_path.glob("text-*") for line in path.read_text().splitlines()]
    assert sorted(found) == sorted(lines)
    with beam.Pipeline(runner=SparkRunner(spark=spark)) as p:
        assert_that(p | beam.io.ReadFromText(str(tmp_path / "text-*")), equal_to(lines))


def test_parquet_written_is_parquet_read(
    pipeline: beam.Pipeline, spark: Any, tmp_path: Path
) -> None:
    schema = pa.schema([("name", pa.string()), ("born", pa.int64())])
    with pipeline as p:
        p | beam.Create(PEOPLE) | beam.io.WriteToParquet(str(tmp_path / "people"), schema)
    with beam.Pipeline(runner=SparkRunner(spark=spark)) as p:
        assert_that(p | beam.io.ReadFromParquet(str(tmp_path / "people*")), equal_to(PEOPLE))


def test_avro_written_is_avro_read(pipeline: beam.Pipeline, spark: Any, tmp_path: Path) -> None:
    with pipeline as p:
        p | beam.Create(PEOPLE) | beam.io.WriteToAvro(str(tmp_path / "people"), AVRO_SCHEMA)
    with beam.Pipeline(runner=SparkRunner(spark=spark)) as p:
        assert_that(p | beam.io.ReadFromAvro(str(tmp_path / "people*")), equal_to(PEOPLE))


def test_matched_files_are_read_whole(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name * 3)
    with pipeline as p:
        read = (
            p
            | fileio.MatchFiles(str(tmp_path / "*.txt"))
            | fileio.ReadMatches()
            | beam.Map(lambda f: (Path(f.metadata.path).name, f.read_utf8()))
        )
        assert_that(read, equal_to([("a.txt", "aaa"), ("b.txt", "bbb")]))
