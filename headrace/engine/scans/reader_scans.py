"""Finds out whether a DataFrame is nothing but what a Python data source's stream reader gives.

Then workers can ask the reader themselves. By way of the JVM its batches go to a worker of Spark's
own, from there into the JVM, become rows, become columns once more and then come to our worker.
Spark still asks the reader for offsets and partitions. A reader that gives rows and offset together
(`SimpleDataSourceStreamReader`) hands its rows to the driver, and is left to Spark, as is whatever
is more than columns of the source. Nothing here is asked of a session of Spark Connect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.engine.scans.projections import (
    Columns,
    NotPlain,
    columns_of,
    field_of,
    if_plain,
    output_of,
    partitions_below,
    scan_columns,
)
from headrace.errors import TransportError
from headrace.plan.scans import ReaderPart, ReaderScan

#: Rows of a reader that gives them one by one, in one batch.
_ROWS = 8192

_SOURCE = "PythonDataSourceV2"


def scan_of(frame: Any) -> ReaderScan | None:
    """Say which columns of a reader the rows of a DataFrame are; None: they are more.

    Args:
        frame: bounded or streaming, as `ReadFromSpark` asks for it.
    """
    if not hasattr(frame, "_jdf") or not frame.isStreaming:
        return None
    return if_plain("rows", lambda: _scan(frame))


def _scan(frame: Any) -> ReaderScan:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper, _streamReader
    from pyspark.worker_util import pickleSer

    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other door)
    columns = scan_columns(columns_of(plan, _source, field_of))
    leaf = plan.collectLeaves().head()
    kinds = leaf.table().schema()
    # Spark has made it for this DataFrame to ask for its schema, and gives what it has made. Where
    # the user said the schema nobody has asked yet, and the source may have none of its own.
    made = leaf.source().get().getOrCreateDataSourceInPython(
        leaf.sourceName(), leaf.extraOptions(),
        frame.sparkSession._jvm.scala.Option.apply(kinds),  # noqa: SLF001
    )
    source, schema = pickleSer.loads(bytes(made.dataSource())), str(kinds.json())
    reader = _streamReader(source, _schema(schema))
    if isinstance(reader, _SimpleStreamReaderWrapper):
        msg = "its reader hands rows to the driver"
        raise NotPlain(msg)
    both = pickleSer.dumps((source, reader))
    return ReaderScan(columns, partial(batches_of, both, schema))


def reader_of(scan: ReaderScan) -> Any:
    """Give a reader of the driver's own, to ask for offsets and partitions."""
    from pyspark.worker_util import pickleSer

    assert isinstance(scan.give, partial)
    _, reader = pickleSer.loads(scan.give.args[0])
    return reader


def part_of(partition: Any) -> ReaderPart:
    """Say what a task is told of a partition, as Spark does it."""
    from pyspark.worker_util import pickleSer

    return ReaderPart(pickleSer.dumps(partition))


def _source(plan: Any) -> Columns:
    kind = plan.getClass().getSimpleName()
    if kind != "StreamingRelationV2" or plan.source().isEmpty():
        msg = f"it is a {kind}"
        raise NotPlain(msg)
    by = plan.source().get().getClass().getSimpleName()
    if by != _SOURCE:
        msg = f"it is read by {by}"
        raise NotPlain(msg)
    return output_of(plan)


def _schema(text: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(text))


def partitions_of(frame: Any) -> tuple[tuple[ReaderPart, ...], ...] | None:
    """Say what the partitions of a batch are to the reader; None: Spark must read."""
    return if_plain("partitions", lambda: _parts(frame))


def _parts(frame: Any) -> tuple[tuple[ReaderPart, ...], ...] | None:
    found = partitions_below(frame)
    return tuple((ReaderPart(bytes(one.pickedPartition())),) for one in found) or None


def batches_of(both: bytes, schema: str, partition: bytes) -> Iterator[pa.RecordBatch]:
    """Give what a reader reads of a partition, in a task, converted and checked as by Spark.

    Args:
        both: the source and its reader, pickled on the driver, as Spark does it.
        schema: of the source, in Spark's JSON.
        partition: pickled by Spark.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches
    from pyspark.worker_util import pickleSer

    source, reader = pickleSer.loads(both)
    rows = reader.read(pickleSer.loads(partition))
    if not isinstance(rows, Iterator):
        raise PySparkRuntimeError(
            errorClass="DATA_SOURCE_INVALID_RETURN_TYPE",
            messageParameters={
                "type": type(rows).__name__, "name": source.name(), "supported_types": "iterator",
            },
        )
    kinds = _schema(schema)
    wanted = to_arrow_schema(kinds, timezone="UTC")
    for batch in records_to_arrow_batches(rows, _ROWS, kinds, source):
        if not isinstance(batch, pa.RecordBatch) or not batch.schema.equals(wanted):
            # Spark looks at the first one alone, and fails in the JVM at another.
            found = batch.schema if isinstance(batch, pa.RecordBatch) else type(batch).__name__
            msg = f"the data source {source.name()} promised {wanted} and gave {found}"
            raise TransportError(msg)
        yield batch
