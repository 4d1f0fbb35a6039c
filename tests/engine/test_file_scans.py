"""DataFrames that are nothing but columns of Parquet files, and the rows of their partitions."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from headrace.engine.scans.file_scans import partitions_of, scan_of
from headrace.io import ReadFromSpark
from headrace.plan.scans import MICROS, FileScan, ScanColumn
from headrace.worker.ends.file_scan import scanned

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

KINDS = pa.schema(
    [
        ("bid", pa.struct([("price", pa.int64()), ("extra", pa.string())])),
        ("number", pa.int64()),
        ("small", pa.int8()),
        ("share", pa.float64()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("data", pa.binary()),
        ("many", pa.list_(pa.int64())),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
PLAIN = ("number", "small", "share", "yes", "day", "data", "at")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)


def table(first: int, rows: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "bid": None if n % 3 == 0 else {"price": n, "extra": None if n % 5 else f"é{n}"},
                "number": None if n % 7 == 0 else n * 2**40, "small": n % 100, "share": n / 3,
                "yes": n % 2 == 0, "day": NOON.date(), "data": bytes([n % 256]), "many": [n],
                "at": NOON + datetime.timedelta(microseconds=n),
            }
            for n in range(first, first + rows)
        ],
        KINDS,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a folder %41"
    made.mkdir()
    for number in range(3):
        pq.write_table(table(number * 100, 100), made / f"{number}.parquet", row_group_size=30)
    return made


def read(spark: Any, folder: Path) -> Any:
    return spark.read.parquet(str(folder))


def test_columns_and_fields_of_structs_are_found(spark: Any, folder: Path) -> None:
    frame = read(spark, folder).select("at", "bid.*", F.col("number").alias("n"))
    asked = ReadFromSpark(frame, columns=["n", "extra"], timestamp="at").frame
    assert scan_of(asked) == FileScan(
        (
            ScanColumn("n", ("number",), "bigint"),
            ScanColumn("extra", ("bid", "extra"), "string"),
            ScanColumn("__headrace_time:at", ("at",), MICROS),
        )
    )


def test_partitions_have_the_rows_that_spark_gives_them(spark: Any, folder: Path) -> None:
    frame = read(spark, folder).select(*PLAIN, "bid.price", "bid.extra")
    scan = scan_of(frame)
    assert scan is not None
    partitions = partitions_of(frame, scan)
    assert partitions is not None
    counted = frame.withColumn("at", F.unix_micros("at")).withColumn("p", F.spark_partition_id())
    told = counted.collect()
    assert len(told) == 300
    for place, parts in enumerate(partitions):
        batches = [batch.record_batch() for batch in scanned(scan, parts)]
        mine = pa.Table.from_batches(batches)
        at = mine.column("at").cast(pa.int64())
        mine = mine.set_column(mine.column_names.index("at"), "at", at)
        rows = list(zip(*mine.to_pydict().values(), strict=True))
        theirs = [tuple(row)[:-1] for row in told if row.p == place]
        assert rows == [tuple(bytes(v) if type(v) is bytearray else v for v in r) for r in theirs]


NOT_PLAIN: dict[str, Callable[[Any, Path], Any]] = {
    "filtered": lambda s, f: read(s, f).select("number").where("number > 3"),
    "computed": lambda s, f: read(s, f).selectExpr("number + 1 AS number"),
    "cast": lambda s, f: read(s, f).selectExpr("CAST(number AS string) AS number"),
    "a list": lambda s, f: read(s, f).select("many"),
    "a struct": lambda s, f: read(s, f).select("bid"),
    "limited": lambda s, f: read(s, f).select("number").limit(3),
    "joined": lambda s, f: read(s, f).select("number").crossJoin(s.range(2)),
    "about files": lambda s, f: read(s, f).select("number", "_metadata.file_name"),
    "another format": lambda s, f: s.range(3),
    "an option": lambda s, f: s.read.option("datetimeRebaseMode", "LEGACY").parquet(
        str(f)
    ).select("number"),
    "a watermark": lambda s, f: s.readStream.schema("number long, at timestamp").parquet(
        str(f)
    ).withWatermark("at", "1 second"),
    "event time of a number": lambda s, f: ReadFromSpark(
        read(s, f).select("number"), timestamp="number"
    ).frame,
    "a partition": lambda s, f: ReadFromSpark(
        read(s, f).select("number", "at"), timestamp="at", partition="number"
    ).frame,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_whatever_is_more_is_left_to_spark(spark: Any, folder: Path, name: str) -> None:
    assert scan_of(NOT_PLAIN[name](spark, folder)) is None


def test_folders_that_are_columns_are_left_to_spark(spark: Any, folder: Path) -> None:
    (folder / "x=1").mkdir()
    for path in list(folder.glob("*.parquet")):
        path.rename(folder / "x=1" / path.name)
    assert scan_of(read(spark, folder).select("number")) is None


def test_settings_that_change_what_is_read_are_left_to_spark(spark: Any, folder: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    assert scan_of(read(session, folder).select("number")) is None


def test_a_cached_frame_is_read_from_its_cache(spark: Any, folder: Path) -> None:
    frame = read(spark, folder).select("number").cache()
    try:
        scan = scan_of(frame)
        assert scan is None or partitions_of(frame, scan) is None
    finally:
        frame.unpersist()


FILES = {
    "narrower": (pa.table({"number": pa.array([1], pa.int32())}), "number long"),
    "in another case": (pa.table({"Number": pa.array([1], pa.int64())}), "number long"),
    "not there": (pa.table({"other": pa.array([1], pa.int64())}), "number long"),
    "of milliseconds": (
        pa.table({"at": pa.array([1], pa.timestamp("ms", tz="UTC"))}), "at timestamp"
    ),
    "without a zone": (pa.table({"at": pa.array([1], pa.timestamp("us"))}), "at timestamp_ntz"),
    "a dictionary": (pa.table({"t": pa.array(["a"]).dictionary_encode()}), "t string"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_other_columns_is_left_to_spark(
    spark: Any, tmp_path: Path, name: str
) -> None:
    made, words = FILES[name]
    pq.write_table(made, tmp_path / "a.parquet")
    frame = spark.read.schema(words).parquet(str(tmp_path))
    scan = scan_of(frame)
    assert scan is None or partitions_of(frame, scan) is None


@pytest.mark.parametrize(("year", "plain"), [(1850, False), (2020, True)])
def test_times_of_another_calendar_are_left_to_spark(
    spark: Any, tmp_path: Path, year: int, plain: bool
) -> None:
    at = datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc)
    pq.write_table(pa.table({"at": pa.array([at], KINDS.field("at").type)}), tmp_path / "a.parquet")
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION")
    frame = session.read.parquet(str(tmp_path))
    scan = scan_of(frame)
    assert scan is not None
    assert (partitions_of(frame, scan) is not None) is plain


def test_batches_of_a_stream_are_its_files(spark: Any, folder: Path, tmp_path: Path) -> None:
    reader = spark.readStream.schema(read(spark, folder).schema).option("maxFilesPerTrigger", 2)
    frame = ReadFromSpark(
        reader.parquet(str(folder)).select("number", "at"), columns=["number"], timestamp="at"
    ).frame
    scan = scan_of(frame)
    assert scan is not None
    found: list[tuple[list[Any], list[Any]]] = []

    def take(batch: Any, _: int) -> None:
        parts = partitions_of(batch, scan)
        assert parts is not None
        rows = [b.record_batch() for each in parts for b in scanned(scan, each)]
        mine = pa.Table.from_batches(rows).to_pydict()
        found.append((list(zip(*mine.values(), strict=True)), list(map(tuple, batch.collect()))))

    query = frame.writeStream.foreachBatch(take).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [len(mine) for mine, _ in found] == [200, 100]
    assert all(mine == theirs for mine, theirs in found)
