"""Finds out whether a DataFrame is nothing but rows of Parquet files, and which files they are.

Then workers can read the files themselves, as columns and only those that are asked for; by way of
the JVM every value becomes part of a row first and a column again afterwards. Spark still decides
which files are read, when, and how they are dealt out to tasks. Whatever is not known to give the
same rows is left to Spark: other formats and places, folders that are columns, other types,
settings that change what is read. Nothing here is asked of a session of Spark Connect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.scans.projections import (
    ARROW,
    Columns,
    NotPlain,
    columns_of,
    each,
    field_of,
    if_plain,
    output_of,
    scan_columns,
)
from headrace.plan.scans import MICROS, FilePart, FileScan, ScanColumn

#: What the driver looks at before each run or epoch; with more files, Spark reads them.
MOST_FILES = 5_000
_MOMENTS = ("date", "timestamp", MICROS)
#: Options of a reader that say which files are read, and when, but not how.
_OPTIONS = frozenset(
    {"path", "paths", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
     "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "cleansource",
     "filenameonly", "maxcachedfiles", "discardcachedinputratio"}
)  # fmt: skip
#: Settings under which Spark reads otherwise than pyarrow, and the value that is known.
_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
}
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
#: Of files that Spark wrote: which version, and that times are in the old calendar.
_WRITTEN_BY, _OLD_CALENDAR = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"


def scan_of(frame: Any) -> FileScan | None:
    """Say which columns of Parquet files the rows of a DataFrame are; None: they are more.

    Args:
        frame: bounded or streaming, as `ReadFromSpark` asks for it.
    """
    return if_plain("rows", lambda: _scan(frame)) if hasattr(frame, "_jdf") else None


def _scan(frame: Any) -> FileScan:
    for name, value in _SETTINGS.items():
        if frame.sparkSession.conf.get(name, value) != value:
            msg = f"{name} is set"
            raise NotPlain(msg)
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other door)
    found = columns_of(plan, _source, field_of)
    if any(column.path[0] == "_metadata" for _, column in found.values()):
        msg = "it has columns about the files"
        raise NotPlain(msg)
    return FileScan(scan_columns(found))


def _source(plan: Any) -> Columns:
    """Give the columns of plain files."""
    kind = plan.getClass().getSimpleName()
    if kind == "LogicalRelation":
        _check_relation(plan.relation())
    elif kind == "StreamingRelation":
        source = plan.dataSource()
        _check_options(source.options())
        if source.className().lower() != "parquet" or source.partitionColumns().size():
            msg = f"it streams {source.className()}"
            raise NotPlain(msg)
    else:
        msg = f"it is a {kind}"
        raise NotPlain(msg)
    return output_of(plan)


def _check_relation(relation: Any) -> None:
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        msg = "it is no relation of files"
        raise NotPlain(msg)
    written = relation.fileFormat().getClass().getSimpleName()
    if written != "ParquetFileFormat" or relation.bucketSpec().isDefined():
        msg = f"its files are {written}"
        raise NotPlain(msg)
    if relation.partitionSchema().length():
        msg = "names of folders are columns"
        raise NotPlain(msg)
    _check_options(relation.options())


def _check_options(options: Any) -> None:
    for name in each(options.keys().toSeq()):
        if str(name).lower() not in _OPTIONS:
            msg = f"the option {name} is set"
            raise NotPlain(msg)


# Files --------------------------------------------------------------------------------------------

#: For each partition of a DataFrame, the parts of files that are its rows.
Partitions = tuple[tuple[FilePart, ...], ...]


def partitions_of(frame: Any, scan: FileScan) -> Partitions | None:
    """Say which parts of which files the partitions of a DataFrame are; None: Spark must read.

    Args:
        frame: a bounded one, or a batch of a streaming one.
        scan: what is known of its columns.
    """
    return if_plain("files", lambda: _checked(frame, scan))


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    size: int
    rows: int


def footers(paths: Sequence[str], scan: FileScan, session: Any) -> Mapping[str, Footer]:
    """Look at local files that a batch is made of.

    Raises:
        NotPlain: Spark must read one of them.
    """
    if len(paths) > MOST_FILES:
        msg = f"there are {len(paths)} of them"
        raise NotPlain(msg)
    rebase = session.conf.get(_REBASE, "EXCEPTION")
    return {path: _check_file(path, scan, rebase) for path in paths}


def _checked(frame: Any, scan: FileScan) -> Partitions | None:
    found = tuple(_parts(frame))
    paths = {part.path for parts in found for part in parts}
    if not found or len(paths) > MOST_FILES:
        return None
    rebase = frame.sparkSession.conf.get(_REBASE, "EXCEPTION")
    for path in sorted(paths):
        _check_file(path, scan, rebase)
    return found


def _parts(frame: Any) -> Iterator[tuple[FilePart, ...]]:
    for partition in each(_scanned(frame).filePartitions()):
        yield tuple(_part(file) for file in partition.files())


def _scanned(frame: Any) -> Any:
    """Find Spark's own list of what each task reads."""
    execution = frame._jdf.queryExecution()  # noqa: SLF001 (no other door)
    analysed = execution.analyzed()
    if analysed.getClass().getSimpleName() == "LogicalRDD":  # a batch of a stream
        rows = analysed.rdd()
        while rows.getClass().getSimpleName() != "FileScanRDD":
            (above,) = each(rows.dependencies())
            if above.getClass().getSimpleName() != "OneToOneDependency":
                msg = "its rows have changed places"
                raise NotPlain(msg)
            rows = above.rdd()
    else:
        (leaf,) = each(execution.sparkPlan().collectLeaves())
        if leaf.getClass().getSimpleName() != "FileSourceScanExec":
            msg = f"it is a {leaf.getClass().getSimpleName()}"
            raise NotPlain(msg)
        rows = leaf.inputRDD()
    if rows.metadataColumns().size():
        msg = "it has columns about the files"
        raise NotPlain(msg)
    return rows


def _part(file: Any) -> FilePart:
    found = urlparse(str(file.urlEncodedPath()))
    if found.scheme != "file" or found.netloc:
        msg = f"{found.scheme} is no local file system"
        raise NotPlain(msg)
    if file.partitionValues().numFields():
        msg = "names of folders are columns"
        raise NotPlain(msg)
    return FilePart(unquote(found.path), file.start(), file.length(), file.fileSize())


def _check_file(path: str, scan: FileScan, rebase: str) -> Footer:
    """See that pyarrow and Spark give the same for the wanted columns of a file."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        for column in scan.columns:
            kind = _type_in(schema, column)
            wanted = ARROW["timestamp" if column.kind == MICROS else column.kind]
            same = kind == wanted or (
                pa.types.is_timestamp(wanted) and pa.types.is_timestamp(kind)
                and kind.unit == "us" and kind.tz is not None
            )
            if not same:
                msg = f"column {column.name} of {path} is {kind}"
                raise NotPlain(msg)
        if any(column.kind in _MOMENTS for column in scan.columns):
            marks = file.metadata.metadata or {}
            if _OLD_CALENDAR in marks or (_WRITTEN_BY not in marks and rebase != "CORRECTED"):
                _check_calendar(path, file.metadata, scan)
        return Footer(os.path.getsize(path), file.metadata.num_rows)


def _type_in(schema: pa.Schema, column: ScanColumn) -> Any:
    """The type of a column; refused where Spark, which overlooks case, could take another."""
    fields = list(schema)
    for place, name in enumerate(column.path):
        same = [field for field in fields if field.name.lower() == name.lower()]
        if len(same) != 1 or same[0].name != name:
            msg = f"there is no column {'.'.join(column.path)}"
            raise NotPlain(msg)
        kind = same[0].type
        if place + 1 < len(column.path):
            if not pa.types.is_struct(kind):
                msg = f"column {name} is {kind}"
                raise NotPlain(msg)
            fields = [kind.field(at) for at in range(kind.num_fields)]
    return kind


def _check_calendar(path: str, metadata: Any, scan: FileScan) -> None:
    """See that no time is so old that calendars differ, by what the file says of its columns."""
    wanted = {".".join(c.path) for c in scan.columns if c.kind in _MOMENTS}
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for place in range(found.num_columns):
            chunk = found.column(place)
            if chunk.path_in_schema not in wanted:
                continue
            stated = chunk.statistics
            if stated is None or (not stated.has_min_max and stated.null_count != chunk.num_values):
                msg = f"{path} does not say how old its times are"
                raise NotPlain(msg)
            if stated.has_min_max and stated.min.year < 1901:
                msg = f"{path} has times of another calendar"
                raise NotPlain(msg)
