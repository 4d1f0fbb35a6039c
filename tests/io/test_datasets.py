"""What DataFrames of a real Spark read, and what sinks write, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from headrace.io import ReadFromKafka, ReadFromSpark, WriteToKafka, WriteToSpark
from headrace.io.datasets import touched_by
from headrace.io.frames import Frames, frames_of
from headrace.plan.datasets import Dataset, Touched


def touched(session: Any, *reads: Any) -> Touched:
    p = beam.Pipeline()
    for number, read in enumerate(reads):
        p | f"Read{number}" >> read
    return touched_by(frames_of(p), session)


@pytest.mark.spark
def test_files_tables_and_streams_of_spark_are_named(spark: Any, tmp_path: Path) -> None:
    at = str(tmp_path / "rows")
    spark.range(3).write.parquet(at)
    spark.sql(f"CREATE TABLE named_rows (id bigint) USING parquet LOCATION '{tmp_path / 'tab'}'")
    try:
        files = Dataset("file", at)
        table = Dataset("file", str(tmp_path / "tab"), "spark_catalog.default.named_rows")
        both = spark.table("named_rows").join(spark.read.parquet(at), "id")
        assert set(touched(spark, ReadFromSpark(both)).inputs) == {files, table}
        stream = spark.readStream.schema("id long").parquet(at)
        assert touched(spark, ReadFromSpark(stream)).inputs == (files,)
        made = spark.createDataFrame([(1,)], "id int")
        assert touched(spark, ReadFromSpark(made)).inputs == ()
        p = beam.Pipeline()
        rows = p | ReadFromSpark(made)
        rows | "Files" >> WriteToSpark(str(tmp_path / "out"))
        rows | "Table" >> WriteToSpark(table="named_rows", mode="append")
        rows | "Function" >> WriteToSpark(function=lambda frame: None)
        found = touched_by(frames_of(p), spark)
        assert found.outputs == (Dataset("file", str(tmp_path / "out")), table)
    finally:
        spark.sql("DROP TABLE named_rows")


def test_topics_are_named_before_there_is_a_session() -> None:
    p = beam.Pipeline()
    read = p | ReadFromKafka("broker:9092", "clicks")
    read | WriteToKafka("broker:9092", "counts")
    found = touched_by(frames_of(p), None)
    assert found.inputs == (Dataset("kafka://broker:9092", "clicks"),)
    assert found.outputs == (Dataset("kafka://broker:9092", "counts"),)


class ConnectFrame:
    """A DataFrame of Spark Connect as far as its plan goes, which is made without a server."""

    def __init__(self, plan: Any) -> None:
        self._plan = self
        self.sparkSession = self
        self.client = None
        self.isStreaming = False
        self._proto = plan

    def to_proto(self, _client: Any) -> Any:
        return self._proto


def test_reads_of_a_connect_plan_are_found_below_other_relations() -> None:
    from pyspark.sql.connect import proto

    plan = proto.Plan()
    files = plan.root.join.left.filter.input.read.data_source
    files.format = "parquet"
    files.paths.append("s3a://lake/clicks")
    kafka = plan.root.join.right.read.data_source
    kafka.format = "kafka"
    kafka.options.update({"subscribe": "prices", "kafka.bootstrap.servers": "broker:9092"})
    found = touched_by(Frames(sources={"Read": ConnectFrame(plan)}), None)
    assert found.inputs == (
        Dataset("s3://lake", "clicks"), Dataset("kafka://broker:9092", "prices"),
    )  # fmt: skip
