"""A sink that could not take the rows is refused before any of them is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import headrace
from headrace.errors import ColumnTypeError, OptionError
from headrace.io.preflight import why_not_writable


def started(spark: Any, folder: Path, sink: Any) -> None:
    """Run a pipeline whose first step leaves a mark that it ran."""
    mark = str(folder / "mark")

    def touch(value: int) -> int:
        Path(mark).touch()
        return value

    try:
        with beam.Pipeline(runner=headrace.SparkRunner(spark=spark)) as p:
            p | beam.Create([1]) | beam.Map(touch) | "Out" >> sink
    finally:
        assert not Path(mark).exists(), "work was done before the refusal"


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "json"])
def test_a_path_that_is_there_is_refused_before_the_work(
    spark: Any, tmp_path: Path, format: str
) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with pytest.raises(OptionError, match="^Out: .* is there already.*mode='append'"):
        started(spark, tmp_path, headrace.io.WriteToSpark(str(path), format=format, schema="n int"))


@pytest.mark.spark
def test_a_path_below_a_file_is_refused_before_the_work(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    sink = headrace.io.WriteToSpark(str(tmp_path / "taken" / "out"), schema="n int")
    with pytest.raises(OptionError, match=r"^Out: .* cannot be written: .*taken is a file"):
        started(spark, tmp_path, sink)


def test_a_folder_without_rights_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != closed)
    assert f"may not write in {closed};" in why_not_writable(str(closed / "a" / "b"))
    assert why_not_writable(str(tmp_path / "open" / "b")) == ""


@pytest.mark.spark
def test_a_table_that_is_there_or_has_other_columns_is_refused_before_the_work(
    spark: Any, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(1,)], "n int")
    place = str(tmp_path / "table")
    spark.sql("DROP TABLE IF EXISTS preflight")
    frame.write.option("path", place).saveAsTable("preflight")
    try:
        sink = headrace.io.WriteToSpark(table="preflight", schema="n int")
        with pytest.raises(OptionError, match="^Out: the table preflight is there already"):
            started(spark, tmp_path, sink)
        sink = headrace.io.WriteToSpark(table="preflight", schema="m int", mode="append")
        with pytest.raises(ColumnTypeError, match="has the columns n, and the rows have m"):
            started(spark, tmp_path, sink)
    finally:
        spark.sql("DROP TABLE preflight")
