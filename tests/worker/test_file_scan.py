"""Workers that read Parquet files give the rows that are in them, each once, as Spark would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.coders import RowCoder
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ColumnTypeError, TransportError
from headrace.io.rows import row_class
from headrace.plan.names import TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.plan.scans import MICROS, MOST_MICROS, FilePart, FileScan, ScanColumn
from headrace.plan.shapes import INT, ScalarKind
from headrace.testing.ddl import columns_of_words
from headrace.worker.columns.column import column_of_objects
from headrace.worker.columns.lazy import LazyColumn
from headrace.worker.columns.values import ColumnValues
from headrace.worker.ends import file_scan
from headrace.worker.ends.file_scan import ScannedBatch, scanned
from headrace.worker.ends.row_reader import RowReader

WORDS = "name string, price long"
NAME = ScanColumn("name", ("who", "name"), "string")
PRICE = ScanColumn("price", ("price",), "bigint")
SCAN = FileScan((NAME, PRICE))
STRUCTS = [{"name": "a", "age": 1}, None, {"name": None, "age": 2}, {"name": "d", "age": 3}]
PRICES = [1, 2, None, 4]


def write(path: Path, *, rows: int = 4, group: int = 2) -> FilePart:
    times = rows // 4
    table = pa.table(
        {
            "who": pa.array(STRUCTS * times),
            "price": pa.array(PRICES * times, pa.int64()),
            "at": pa.array(range(rows), pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, path, row_group_size=group)
    size = path.stat().st_size
    return FilePart(str(path), 0, size, size)


def rows_in(batches: Any) -> list[tuple[Any, ...]]:
    found = (batch.record_batch().to_pydict().values() for batch in batches)
    return [row for columns in found for row in zip(*columns, strict=True)]


def reader(words: str = WORDS) -> RowReader:
    made: Any = row_class(columns_of_words(words))
    coder = RowCoder(SCHEMA_REGISTRY.get_schema_by_id(made._beam_schema_id))
    return RowReader(beam.coders.WindowedValueCoder(coder), step="Read")


def test_fields_of_structs_are_columns_and_null_where_the_struct_is(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet")
    assert rows_in(scanned(SCAN, [part])) == [("a", 1), (None, 2), (None, None), ("d", 4)]


@given(cuts=st.lists(st.integers(0, 5_000), max_size=4))
def test_each_row_group_is_in_one_part_wherever_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.parquet"
    whole = write(path, rows=40, group=3)
    ends = sorted({0, whole.size, *(cut for cut in cuts if cut < whole.size)})
    parts = [
        FilePart(whole.path, a, b - a, whole.size) for a, b in zip(ends, ends[1:], strict=False)
    ]
    found = [rows_in(scanned(SCAN, [part])) for part in parts]
    assert [row for rows in found for row in rows] == rows_in(scanned(SCAN, [whole]))


def test_a_large_row_group_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = write(tmp_path / "a.parquet", rows=40, group=40)
    whole = rows_in(scanned(SCAN, [part]))
    monkeypatch.setattr(file_scan, "MOST_BYTES", 1)
    monkeypatch.setattr(file_scan, "COLUMN_ROWS", 2)
    batches = list(scanned(SCAN, [part]))
    assert [batch.num_rows for batch in batches] == [8] * 5
    assert rows_in(batches) == whole


def test_a_file_that_has_changed_since_it_was_listed_is_refused(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet")
    with pytest.raises(TransportError, match=r"a\.parquet has .* bytes now"):
        list(scanned(SCAN, [FilePart(part.path, 0, part.size, part.size - 1)]))


def test_a_column_that_nobody_asks_for_is_not_read() -> None:
    asked = []

    def load(column: ScanColumn) -> pa.Array:
        asked.append(column.name)
        return pa.array([1, 2, 3], pa.int64())

    batch = ScannedBatch(SCAN, 3, load)
    ((values, _),) = reader().columns(batch, 100)
    assert isinstance(values, ColumnValues)
    kept = values.slice(1, 3).filter(np.array([True, False]))
    assert (len(kept), asked) == (1, [])
    assert not kept.is_whole
    assert kept.part(1).objects() == [2]
    assert asked == ["price"]
    assert values.leaves[1].data.tolist() == [1, 2, 3]
    assert asked == ["price"]


def test_columns_and_objects_of_a_scan_are_the_same(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet", rows=8, group=5)
    lazy = [row for b in scanned(SCAN, [part]) for v, _ in reader().columns(b, 2) for row in v]
    eager = [row for b in scanned(SCAN, [part]) for v, _ in reader().timed(b, 2) for row in v]
    spark = [
        row for b in scanned(SCAN, [part]) for v, _ in reader().columns(b.record_batch(), 2)
        for row in v
    ]
    assert lazy == eager == spark
    assert [type(row) for row in lazy] == [type(row) for row in eager]


def test_event_times_are_microseconds(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet")
    scan = FileScan((PRICE, ScanColumn(f"{TIME_COLUMN}at", ("at",), MICROS)))
    read = reader("price long")
    found = [m for b in scanned(scan, [part]) for _, m in read.columns(b, 100)]
    assert [time for meta in found for time in meta.times.tolist()] == [0, 1, 2, 3]
    assert read.highs == {"": 3}


@pytest.mark.parametrize("name", [TIME_COLUMN, TIME_OR_DROP_COLUMN])
def test_rows_without_a_time_fail_or_are_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.parquet"
    times = [0, None, MOST_MICROS + 1, -MOST_MICROS, -MOST_MICROS - 1, MOST_MICROS]
    kinds = pa.timestamp("us", tz="UTC")
    pq.write_table(pa.table({"price": range(6), "at": pa.array(times, kinds)}), path)
    part = FilePart(str(path), 0, path.stat().st_size, path.stat().st_size)
    scan = FileScan((PRICE, ScanColumn(f"{name}at", ("at",), MICROS)))
    read = reader("price long")

    def rows() -> list[Any]:
        batches = scanned(scan, [part])
        return [row.price for b in batches for v, _ in read.columns(b, 9) for row in v]

    if name == TIME_COLUMN:
        with pytest.raises(ColumnTypeError, match="'at' gives the rows their event time"):
            rows()
    else:
        assert (rows(), read.dropped) == ([0, 3, 5], 3)


def test_text_that_is_none_fails_where_it_is_read() -> None:
    broken = pa.array([b"\xff"]).view(pa.string())
    batch = ScannedBatch(SCAN, 1, lambda _: broken)
    ((values, _),) = reader().columns(batch, 9)
    assert isinstance(values, ColumnValues)
    with pytest.raises(UnicodeDecodeError):
        values.objects()


def test_a_lazy_column_is_made_once_for_all_its_parts() -> None:
    calls = []

    def make() -> Any:
        calls.append(1)
        return column_of_objects([5, 6, 7, 8], INT)

    column = LazyColumn(ScalarKind.INT, 4, make)
    parts = [column.slice(1, 3), column.take(np.array([3, 0])), column.slice(0, 2).slice(1, 2)]
    assert ([len(part) for part in parts], calls) == ([2, 2, 1], [])
    assert [part.objects() for part in parts] == [[6, 7], [8, 5], [6]]
    assert calls == [1]
    assert column.put(np.array([0]), parts[0].slice(0, 1)).objects() == [6, 6, 7, 8]
    assert column.arrow().to_pylist() == [5, 6, 7, 8]
