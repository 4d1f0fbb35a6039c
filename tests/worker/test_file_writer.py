"""Rows that workers write as files themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import GlobalWindows

from headrace.errors import ColumnTypeError
from headrace.worker.ends import file_writer
from headrace.worker.ends.file_writer import FileWriter

SCHEMA = pa.schema([("name", pa.string()), ("price", pa.int64())])
META = GlobalWindows.windowed_value(None)


def writer(folder: Path, told: list[Any]) -> FileWriter:
    return FileWriter(
        3, "Drain", SCHEMA, folder=lambda: str(folder), wrote=lambda *what: told.append(what),
        shard=1, super_tuple_bytes=1_000,
    )


def test_the_rows_of_an_epoch_are_one_file_that_is_told_when_it_is_whole(tmp_path: Path) -> None:
    told: list[Any] = []
    made = writer(tmp_path / "deep" / "place", told)
    rows = [(f"n{i}", i) for i in range(1_000)]
    made.write(rows[:600], META)
    made.write(rows[600:], META)
    assert told == []
    made.flush()
    ((name, count),) = told
    assert count == 1_000
    assert name.startswith("part-00001-")
    found = pq.read_table(tmp_path / "deep" / "place" / name)
    assert found.schema.equals(SCHEMA)
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


def test_an_epoch_without_rows_makes_no_file(tmp_path: Path) -> None:
    told: list[Any] = []
    writer(tmp_path / "place", told).flush()
    assert told == []
    assert not (tmp_path / "place").exists()


def test_every_epoch_has_a_file_of_its_own(tmp_path: Path) -> None:
    told: list[Any] = []
    made = writer(tmp_path, told)
    for price in (1, 2):
        made.write([("a", price)], META)
        made.flush()
    assert [count for _, count in told] == [1, 1]
    prices = [pq.read_table(tmp_path / name)["price"].to_pylist() for name, _ in told]
    assert prices == [[1], [2]]


def test_many_rows_are_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "GROUP_ROWS", 2_000)
    told: list[Any] = []
    made = writer(tmp_path, told)
    for start in range(0, 6_500, 500):
        made.write([("a", n) for n in range(start, start + 500)], META)
    made.flush()
    found = pq.ParquetFile(tmp_path / told[0][0])
    assert 2 <= found.num_row_groups <= 4
    assert found.read()["price"].to_pylist() == list(range(6_500))


def test_a_value_that_does_not_fit_is_refused_by_column_and_sink(tmp_path: Path) -> None:
    made = writer(tmp_path, [])
    with pytest.raises(ColumnTypeError, match=r"Drain: column 'price'"):
        made.write([("a", 1.5)], META)
        made.flush()
