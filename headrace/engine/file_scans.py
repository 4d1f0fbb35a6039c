"""Finds out whether a DataFrame is nothing but rows of Parquet files, and which files they are.

Then workers can read the files themselves, as columns and only those that are asked for; by way of
the JVM every value becomes part of a row first and a column again afterwards. Spark still decides
which files are read, when, and how they are dealt out to tasks. Whatever is not known to give the
same rows is left to Spark: other formats and places, folders that are columns, other types,
settings that change what is read. Nothing here is asked of a session of Spark Connect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.plan.names import TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.plan.scans import MICROS, FilePart, FileScan, ScanColumn

_LOG = logging.getLogger(__name__)

#: What the driver looks at before each run or epoch; with more files, Spark reads them.
MOST_FILES = 5_000
#: Spark's types whose columns pyarrow reads just as Spark hands them over.
_ARROW: Mapping[str, Any] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
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


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a plan: where it stands in a file, and its type in Spark's words."""

    path: tuple[str, ...]
    kind: str


class _NotPlain(Exception):
    """Why Spark has to read."""


def scan_of(frame: Any) -> FileScan | None:
    """Say which columns of Parquet files the rows of a DataFrame are; None: they are more.

    Args:
        frame: bounded or streaming, as `ReadFromSpark` asks for it.
    """
    if not hasattr(frame, "_jdf"):
        return None
    try:
        return _scan(frame)
    except _NotPlain as reason:
        _LOG.debug("Spark reads the rows of a DataFrame: %s", reason)
    except Exception as error:  # noqa: BLE001 (another Spark may have other plans: it costs speed)
        _LOG.debug("the plan of a DataFrame was not understood: %r", error)
    return None


def _scan(frame: Any) -> FileScan:
    for name, value in _SETTINGS.items():
        if frame.sparkSession.conf.get(name, value) != value:
            msg = f"{name} is set"
            raise _NotPlain(msg)
    known = _columns(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 (no other door)
    columns = []
    for name, found in known.values():
        if found.kind not in _ARROW and found.kind != MICROS:
            msg = f"column {name} is {found.kind}"
            raise _NotPlain(msg)
        if found.path[0] == "_metadata":
            msg = "it has columns about the files"
            raise _NotPlain(msg)
        if any("." in part for part in found.path):
            msg = f"column {name} has a dot in its name"
            raise _NotPlain(msg)
        columns.append(ScanColumn(name, found.path, found.kind))
    if not columns:
        msg = "it has no columns"
        raise _NotPlain(msg)
    return FileScan(tuple(columns))


def _columns(plan: Any) -> dict[int, tuple[str, Found]]:
    """Give the columns of a plan by their ids in it, in order: name, and where it stands."""
    kind = plan.getClass().getSimpleName()
    if kind == "Project":
        below = _columns(plan.child())
        made = dict(_projected(item, below) for item in _each(plan.projectList()))
        if len(made) != plan.projectList().size():
            msg = "a column comes twice"
            raise _NotPlain(msg)
        return made
    if kind == "LogicalRelation":
        _check_relation(plan.relation())
    elif kind == "StreamingRelation":
        source = plan.dataSource()
        _check_options(source.options())
        if source.className().lower() != "parquet" or source.partitionColumns().size():
            msg = f"it streams {source.className()}"
            raise _NotPlain(msg)
    else:
        msg = f"it is a {kind}"
        raise _NotPlain(msg)
    return {
        item.exprId().id(): (
            item.name(), Found((item.name(),), str(item.dataType().simpleString()))
        )
        for item in _each(plan.output())
    }


def _check_relation(relation: Any) -> None:
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        msg = "it is no relation of files"
        raise _NotPlain(msg)
    written = relation.fileFormat().getClass().getSimpleName()
    if written != "ParquetFileFormat" or relation.bucketSpec().isDefined():
        msg = f"its files are {written}"
        raise _NotPlain(msg)
    if relation.partitionSchema().length():
        msg = "names of folders are columns"
        raise _NotPlain(msg)
    _check_options(relation.options())


def _check_options(options: Any) -> None:
    for name in _each(options.keys().toSeq()):
        if str(name).lower() not in _OPTIONS:
            msg = f"the option {name} is set"
            raise _NotPlain(msg)


def _projected(
    item: Any, below: Mapping[int, tuple[str, Found]]
) -> tuple[int, tuple[str, Found]]:
    number, name = item.exprId().id(), str(item.name())
    if item.getClass().getSimpleName() == "AttributeReference":
        return number, (name, below[number][1])
    if name.startswith((TIME_COLUMN, TIME_OR_DROP_COLUMN)):
        # Our own expression for the event time; no column of a row has such a name.
        (of,) = {reference.exprId().id() for reference in _each(item.references().toSeq())}
        found = below[of][1]
        if found.kind != "timestamp":
            msg = f"its event time is a {found.kind}"
            raise _NotPlain(msg)
        return number, (name, Found(found.path, MICROS))
    return number, (name, _picked(item.child(), below))


def _picked(expression: Any, below: Mapping[int, tuple[str, Found]]) -> Found:
    """Follow fields of structs down to a column."""
    match expression.getClass().getSimpleName():
        case "AttributeReference":
            return below[expression.exprId().id()][1]
        case "GetStructField":
            outer = _picked(expression.child(), below)
            field = expression.childSchema().fields()[expression.ordinal()]
            return Found((*outer.path, str(field.name())), str(field.dataType().simpleString()))
        case other:
            msg = f"it computes {other}"
            raise _NotPlain(msg)


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(at) for at in range(found.size()))


# Files --------------------------------------------------------------------------------------------

#: For each partition of a DataFrame, the parts of files that are its rows.
Partitions = tuple[tuple[FilePart, ...], ...]


def partitions_of(frame: Any, scan: FileScan) -> Partitions | None:
    """Say which parts of which files the partitions of a DataFrame are; None: Spark must read.

    Args:
        frame: a bounded one, or a batch of a streaming one.
        scan: what is known of its columns.
    """
    try:
        found = tuple(_parts(frame))
        paths = {part.path for parts in found for part in parts}
        if not found or len(paths) > MOST_FILES:
            return None
        rebase = frame.sparkSession.conf.get(_REBASE, "EXCEPTION")
        for path in sorted(paths):
            _check_file(path, scan, rebase)
    except _NotPlain as reason:
        _LOG.debug("Spark reads the rows of a batch: %s", reason)
        return None
    except Exception as error:  # noqa: BLE001 (Spark says what is wrong with a file)
        _LOG.debug("the files of a batch were not understood: %r", error)
        return None
    return found


def _parts(frame: Any) -> Iterator[tuple[FilePart, ...]]:
    for partition in _each(_scanned(frame).filePartitions()):
        yield tuple(_part(file) for file in partition.files())


def _scanned(frame: Any) -> Any:
    """Find Spark's own list of what each task reads."""
    execution = frame._jdf.queryExecution()  # noqa: SLF001 (no other door)
    analysed = execution.analyzed()
    if analysed.getClass().getSimpleName() == "LogicalRDD":  # a batch of a stream
        rows = analysed.rdd()
        while rows.getClass().getSimpleName() != "FileScanRDD":
            (above,) = _each(rows.dependencies())
            if above.getClass().getSimpleName() != "OneToOneDependency":
                msg = "its rows have changed places"
                raise _NotPlain(msg)
            rows = above.rdd()
    else:
        (leaf,) = _each(execution.sparkPlan().collectLeaves())
        if leaf.getClass().getSimpleName() != "FileSourceScanExec":
            msg = f"it is a {leaf.getClass().getSimpleName()}"
            raise _NotPlain(msg)
        rows = leaf.inputRDD()
    if rows.metadataColumns().size():
        msg = "it has columns about the files"
        raise _NotPlain(msg)
    return rows


def _part(file: Any) -> FilePart:
    found = urlparse(str(file.urlEncodedPath()))
    if found.scheme != "file" or found.netloc:
        msg = f"{found.scheme} is no local file system"
        raise _NotPlain(msg)
    if file.partitionValues().numFields():
        msg = "names of folders are columns"
        raise _NotPlain(msg)
    return FilePart(unquote(found.path), file.start(), file.length(), file.fileSize())


def _check_file(path: str, scan: FileScan, rebase: str) -> None:
    """See that pyarrow and Spark give the same for the wanted columns of a file."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        for column in scan.columns:
            kind = _type_in(schema, column)
            wanted = _ARROW["timestamp" if column.kind == MICROS else column.kind]
            same = kind == wanted or (
                pa.types.is_timestamp(wanted) and pa.types.is_timestamp(kind)
                and kind.unit == "us" and kind.tz is not None
            )
            if not same:
                msg = f"column {column.name} of {path} is {kind}"
                raise _NotPlain(msg)
        if any(column.kind in _MOMENTS for column in scan.columns):
            told = file.metadata.metadata or {}
            if _OLD_CALENDAR in told or (_WRITTEN_BY not in told and rebase != "CORRECTED"):
                _check_calendar(path, file.metadata, scan)


def _type_in(schema: pa.Schema, column: ScanColumn) -> Any:
    """The type of a column; refused where Spark, which overlooks case, could take another."""
    fields = list(schema)
    for place, name in enumerate(column.path):
        same = [field for field in fields if field.name.lower() == name.lower()]
        if len(same) != 1 or same[0].name != name:
            msg = f"there is no column {'.'.join(column.path)}"
            raise _NotPlain(msg)
        kind = same[0].type
        if place + 1 < len(column.path):
            if not pa.types.is_struct(kind):
                msg = f"column {name} is {kind}"
                raise _NotPlain(msg)
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
            told = chunk.statistics
            if told is None or (not told.has_min_max and told.null_count != chunk.num_values):
                msg = f"{path} does not say how old its times are"
                raise _NotPlain(msg)
            if told.has_min_max and told.min.year < 1901:
                msg = f"{path} has times of another calendar"
                raise _NotPlain(msg)
