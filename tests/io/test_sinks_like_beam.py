"""Beam's file sinks leave the same files as on Beam's local runner: names, numbers, contents.

All sinks stand in one pipeline, which runs once here and once there, on rows that come from two
shards. Where the number of files is left to the runner, the contents of all files together are
compared, and that the names count to their number.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.dataframe import convert
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from fastavro import reader as read_avro
from pyarrow import parquet

from headrace.runner import SparkRunner

pytestmark = pytest.mark.spark


class Person(NamedTuple):
    name: str
    born: int


PEOPLE = [Person(f"name-{n}", 1800 + n) for n in range(12)]
SCHEMA = pa.schema([("name", pa.string()), ("born", pa.int64())])
AVRO = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "born", "type": "long"}],
}

Sink = Callable[[Any, str], Any]

#: Sinks of lines, of people, of dicts: what they are given, and where they write to.
LINES: dict[str, Sink] = {
    "text": lambda c, at: c | beam.io.WriteToText(at),
    "text in one": lambda c, at: c | beam.io.WriteToText(at, num_shards=1),
    "text in three": lambda c, at: c | beam.io.WriteToText(
        at, ".txt", num_shards=3, header="head", footer="foot"),
    "text by name": lambda c, at: c | beam.io.WriteToText(
        at, shard_name_template="", num_shards=1),
    "text by template": lambda c, at: c | beam.io.WriteToText(
        at, ".gz", shard_name_template="_S_N", num_shards=2, compression_type="gzip"),
    "text by bytes": lambda c, at: c | beam.io.WriteToText(at, max_bytes_per_shard=30),
    "no text": lambda c, at: c | beam.Filter(lambda _: False) | beam.io.WriteToText(at, header="h"),
    "no file": lambda c, at: (
        c | beam.Filter(lambda _: False) | beam.io.WriteToText(at, skip_if_empty=True)),
    "files": lambda c, at: c | fileio.WriteToFiles(at),
    "files in one": lambda c, at: c | fileio.WriteToFiles(at, shards=1),
    "files by destination": lambda c, at: c | fileio.WriteToFiles(
        at, shards=1, destination=lambda line: line[-1], sink=lambda _: fileio.TextSink(),
        file_naming=fileio.destination_prefix_naming(".csv")),
    "files by name": lambda c, at: c | fileio.WriteToFiles(
        at, shards=1, file_naming=fileio.single_file_naming("one", ".txt")),
    "files in three": lambda c, at: c | fileio.WriteToFiles(
        at, shards=3, max_writers_per_bundle=0),
}  # fmt: skip
#: Beam writes TFRecords only with one of these at hand, and asks for none of them itself.
if any(importlib.util.find_spec(name) for name in ("google_crc32c", "snappy", "crcmod")):
    LINES["tfrecord"] = lambda c, at: (
        c | beam.Map(str.encode) | beam.io.WriteToTFRecord(at, num_shards=2))
PERSONS: dict[str, Sink] = {
    "csv": lambda c, at: c | beam.io.WriteToCsv(at),
    "csv in one": lambda c, at: c | beam.io.WriteToCsv(at, num_shards=1),
    "json in one": lambda c, at: c | beam.io.WriteToJson(at, num_shards=1),
    "frame csv": lambda c, at: convert.to_dataframe(c).to_csv(
        f"{at}.csv", num_shards=1, index=False),
    "frame parquet": lambda c, at: convert.to_dataframe(c).to_parquet(
        f"{at}.parquet", num_shards=1),
}  # fmt: skip
DICTS: dict[str, Sink] = {
    "avro": lambda c, at: c | beam.io.WriteToAvro(
        at, AVRO, file_name_suffix=".avro", num_shards=2),
    "parquet": lambda c, at: c | beam.io.WriteToParquet(at, SCHEMA, num_shards=2),
    "parquet in one": lambda c, at: c | beam.io.WriteToParquet(
        at, SCHEMA, num_shards=1, shard_name_template="", file_name_suffix=".parquet"),
}  # fmt: skip

#: The number of files is the runner's choice.
FREE = {"text", "text by bytes", "files", "csv"}


def write_all(runner: Any, folder: Path, options: list[str], *, spread: bool) -> None:
    with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as p:
        people = p | beam.Create(PEOPLE).with_output_types(Person)
        if spread:
            people = people | beam.Reshuffle()
        lines = people | beam.Map(lambda person: f"{person.name},{person.born % 2}")
        dicts = people | beam.Map(lambda person: person._asdict())
        for given, sinks in ((lines, LINES), (people, PERSONS), (dicts, DICTS)):
            for name, sink in sinks.items():
                at = folder / name
                at.mkdir(parents=True)
                where = at if name.startswith("files") else at / "out"
                given | name >> Applied(sink, str(where))


class Applied(beam.PTransform):  # type: ignore[misc]
    def __init__(self, sink: Sink, at: str) -> None:
        super().__init__()
        self._sink, self._at = sink, at

    def expand(self, pcoll: Any) -> Any:
        return self._sink(pcoll, self._at)


def rows_of(path: Path) -> Iterator[str]:
    match path.parts[-2]:
        case "avro":
            with path.open("rb") as file:
                yield from map(repr, read_avro(file))
        case "parquet" | "parquet in one" | "frame parquet":
            yield from map(repr, parquet.read_table(path).select(SCHEMA.names).to_pylist())
        case "tfrecord":
            yield from re.findall(r"name-\d+,\d", path.read_bytes().decode(errors="replace"))
        case "text by template":
            yield from gzip.open(path, "rt").read().splitlines()
        case _:
            yield from path.read_text().splitlines()


def found(folder: Path) -> dict[str, list[str]]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: sorted(rows_of(path)) for path in files}


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    local, ours = tmp_path_factory.mktemp("local"), tmp_path_factory.mktemp("ours")
    # In one bundle: with several, WriteToFiles breaks its promise there too.
    write_all(FnApiRunner(), local, [], spread=False)
    write_all(SparkRunner(spark=spark), ours, ["--shards=2", "--progress=off"], spread=True)
    return local, ours


@pytest.mark.parametrize("name", [*LINES, *PERSONS, *DICTS])
def test_a_sink_leaves_the_files_that_it_leaves_on_beams_local_runner(
    written: tuple[Path, Path], name: str
) -> None:
    local, ours = (found(folder / name) for folder in written)
    if name in FREE:
        numbers = {tuple(re.findall(r"-(\d{5})-of-(\d{5})$", file)) for file in ours}
        many = f"{len(ours):05}"
        assert numbers == {((f"{n:05}", many),) for n in range(len(ours))}
    else:
        assert list(ours) == list(local)
    # Which rows are in which of several files is nobody's promise; a header is in each.
    headers = {"name,born"} if name == "csv" else set()
    for files in (local, ours):
        for header in headers:
            assert all(header in rows for rows in files.values())

    def rows(files: dict[str, list[str]]) -> list[str]:
        return sorted(row for each in files.values() for row in each if row not in headers)

    assert rows(ours) == rows(local)
