"""DataFrames that are nothing but what a Python data source's stream reader gives."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

import headrace
from headrace.engine.scans import reader_scans
from headrace.engine.scans.reader_scans import partitions_of, scan_of
from headrace.errors import TransportError
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.plan.scans import MICROS, ScanColumn
from headrace.worker.ends.scans import read_scan
from tests.connect.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

WORDS = (
    "number long, small int, share double, yes boolean, text string, data binary, day date, "
    "at timestamp, bid struct<price:long,extra:string>"
)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
PER_BATCH, ROWS = 40, 100


def row(n: int) -> tuple[Any, ...]:
    return (
        None if n % 7 == 0 else n * 2**40, n, n / 3, n % 2 == 0, None if n % 5 == 0 else f"é{n}",
        bytes([n]), NOON.date(), NOON + datetime.timedelta(microseconds=n),
        None if n % 3 == 0 else Row(price=n, extra=f"x{n}"),
    )  # fmt: skip


class Reader(DataSourceStreamReader):  # type: ignore[misc]
    """Gives rows in two partitions a batch, in the shape that an option names."""

    def __init__(self, shape: str, schema: StructType) -> None:
        self.shape, self.schema = shape, schema

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        del limit
        return {"at": min(start["at"] + PER_BATCH, ROWS)}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        low, high = start["at"], end["at"]
        middle = (low + high) // 2
        return [InputPartition(part) for part in ((low, middle), (middle, high))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        made = [row(n) for n in range(*partition.value)]
        names = self.schema.fieldNames()
        match self.shape:
            case "tuples":
                yield from made
            case "rows":  # by name, in another order
                for each in made:
                    yield Row(**dict(reversed(list(zip(names, each, strict=True)))))
            case "arrow":
                kinds = to_arrow_schema(self.schema, timezone="UTC")
                dicts: list[dict[str, Any]] = [dict(zip(names, each, strict=True)) for each in made]
                for given in dicts:
                    given["bid"] = given["bid"] and given["bid"].asDict()
                yield pa.RecordBatch.from_pylist(dicts[:3], kinds)
                yield pa.RecordBatch.from_pylist([], kinds)
                yield pa.RecordBatch.from_pylist(dicts[3:], kinds)
            case "short":
                yield made[0][:2]
            case "changing":
                kinds = pa.schema([("number", pa.int64())])
                yield pa.RecordBatch.from_pylist([{"number": 1}], kinds)
                yield pa.RecordBatch.from_pylist(
                    [{"number": 1}], pa.schema([("number", pa.int32())])
                )
            case "raising":
                yield made[0]
                msg = "the gauge is under water"
                raise OSError(msg)


class Gauges(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "scanned_gauges"

    def schema(self) -> str:
        return str(self.options.get("words", WORDS))

    def streamReader(self, schema: StructType) -> Reader:
        return Reader(self.options["shape"], schema)


class Formless(DataSource):  # type: ignore[misc]
    """Says nothing of its columns: who reads it says them."""

    @classmethod
    def name(cls) -> str:
        return "scanned_formless_gauges"

    def streamReader(self, schema: StructType) -> Reader:
        return Reader(self.options["shape"], schema)


class Simple(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def read(self, start: Any) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(start["at"],)]), {"at": min(start["at"] + 1, 3)}

    def readBetweenOffsets(self, start: Any, end: Any) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(start["at"], end["at"])])


class SimpleGauges(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "scanned_simple_gauges"

    def schema(self) -> str:
        return "number long"

    def simpleStreamReader(self, schema: StructType) -> Simple:
        del schema
        return Simple()


def stream(spark: Any, shape: str, **options: str) -> Any:
    spark.dataSource.register(Gauges)
    return spark.readStream.format("scanned_gauges").options(shape=shape, **options).load()


def formless(spark: Any, shape: str) -> Any:
    spark.dataSource.register(Formless)
    reader = spark.readStream.format("scanned_formless_gauges").schema(WORDS)
    return reader.options(shape=shape).load()


def batches(frame: Any, folder: Path, take: Callable[[Any], None]) -> None:
    """Let Spark bring two batches or more, and look at each."""
    seen: list[int] = []

    def looked(batch: Any, number: int) -> None:
        take(batch)
        seen.append(number)

    query = frame.writeStream.foreachBatch(looked).option("checkpointLocation", folder).start()
    try:
        until(lambda: len(seen) >= 2 or query.exception() is not None)
        assert query.exception() is None
    finally:
        query.stop()


def test_columns_and_fields_of_structs_are_found(spark: Any) -> None:
    frame = stream(spark, "tuples").select("at", "bid.*", "number")
    scan = scan_of(ReadFromSpark(frame, columns=["number", "extra"], timestamp="at").frame)
    assert scan is not None
    assert scan.columns == (
        ScanColumn("number", ("number",), "bigint"),
        ScanColumn("extra", ("bid", "extra"), "string"),
        ScanColumn("__headrace_time:at", ("at",), MICROS),
    )


@pytest.mark.parametrize(
    ("shape", "source"),
    [("tuples", stream), ("rows", stream), ("arrow", stream), ("arrow", formless)],
)
def test_partitions_have_the_rows_that_spark_gives_them(
    spark: Any, tmp_path: Path, shape: str, source: Callable[[Any, str], Any]
) -> None:
    """Spark's own rows of the same batch are what is right; they take the way by the JVM."""
    frame = source(spark, shape).select("*", "bid.price", "bid.extra").drop("bid")
    scan = scan_of(frame)
    assert scan is not None
    compared: list[int] = []

    def take(batch: Any) -> None:
        partitions = partitions_of(batch)
        assert partitions is not None
        mine = [
            tuple(each)
            for parts in partitions for found in read_scan(scan, parts)
            for each in zip(
                *[column.to_pylist() for column in found.record_batch().columns], strict=True
            )
        ]  # fmt: skip
        theirs = batch.toArrow()
        assert mine == list(zip(*[c.to_pylist() for c in theirs.columns], strict=True))
        compared.append(len(mine))

    batches(frame, tmp_path, take)
    assert compared[:2] == [PER_BATCH, PER_BATCH]


NOT_PLAIN: dict[str, Callable[[Any], Any]] = {
    "filtered": lambda s: stream(s, "tuples").select("number").where("number > 3"),
    "computed": lambda s: stream(s, "tuples").selectExpr("number + 1 AS number"),
    "a struct": lambda s: stream(s, "tuples").select("bid"),
    "another source": lambda s: s.readStream.format("rate").load(),
    "bounded": lambda s: s.range(3),
    "a watermark": lambda s: stream(s, "tuples").select("at").withWatermark("at", "1 second"),
    "event time of a number": lambda s: ReadFromSpark(
        stream(s, "tuples").select("number"), timestamp="number"
    ).frame,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_whatever_is_more_is_left_to_spark(spark: Any, name: str) -> None:
    assert scan_of(NOT_PLAIN[name](spark)) is None


def test_a_reader_that_hands_rows_to_the_driver_is_left_to_spark(spark: Any) -> None:
    spark.dataSource.register(SimpleGauges)
    assert scan_of(spark.readStream.format("scanned_simple_gauges").load()) is None


@pytest.mark.parametrize(
    ("shape", "words", "error", "told"),
    [
        ("short", WORDS, PySparkRuntimeError, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ("changing", "number long", TransportError, "scanned_gauges promised number: int64"),
        ("raising", WORDS, OSError, "the gauge is under water"),
    ],
)
def test_what_a_reader_must_not_give_is_refused(
    shape: str, words: str, error: type[Exception], told: str
) -> None:
    from pyspark.worker_util import pickleSer

    schema = _parse_datatype_string(words)
    source = Gauges({"shape": shape, "words": words})
    both = pickleSer.dumps((source, source.streamReader(schema)))
    part = pickleSer.dumps(InputPartition((0, 2)))
    with pytest.raises(error, match=told):
        list(reader_scans.batches_of(both, schema.json(), part))


@pytest.mark.parametrize("columns", ["on", "off"])
def test_a_stream_has_the_same_rows_with_and_without(
    spark: Any, tmp_path: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    real = reader_scans.partitions_of

    def noting(frame: Any) -> Any:
        asked.append(True)
        return real(frame)

    monkeypatch.setattr(reader_scans, "partitions_of", noting)
    flags = ["--progress=off", "--shards=2", f"--columns={columns}", f"--checkpoint={tmp_path}/c"]
    p = beam.Pipeline(runner=headrace.SparkRunner(spark), options=PipelineOptions(flags))
    _ = (
        p
        | ReadFromSpark(stream(spark, "arrow"), columns=["small", "text"], timestamp="at")
        | beam.Map(lambda r: (r.small * 2, r.text))
        | WriteToSpark(f"{tmp_path}/rows", schema="small long, text string")
    )
    result = p.run()

    def rows() -> list[Any]:
        kinds = "small long, text string"  # what is being written has no file to tell by
        found = spark.read.schema(kinds).parquet(f"{tmp_path}/rows").select("small", "text")
        return sorted(map(tuple, found.collect()))

    until(lambda: (tmp_path / "rows").exists() and len(rows()) >= ROWS)
    result.drain()
    assert rows() == [(2 * n, row(n)[4]) for n in range(ROWS)]
    assert bool(asked) is (columns == "on")


def test_an_exception_of_a_reader_ends_the_run_with_its_words(spark: Any, tmp_path: Path) -> None:
    flags = ["--progress=off", "--shards=2", f"--checkpoint={tmp_path}/c"]
    p = beam.Pipeline(runner=headrace.SparkRunner(spark), options=PipelineOptions(flags))
    read = "Gauges" >> ReadFromSpark(stream(spark, "raising"), columns=["small"])
    _ = p | read | WriteToSpark(f"{tmp_path}/rows", schema="small int")
    with pytest.raises(Exception, match="the gauge is under water"):
        p.run().wait_until_finish()
