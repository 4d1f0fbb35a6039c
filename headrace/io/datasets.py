"""Names what the DataFrames of a pipeline read and what its sinks write.

Takes frames and sinks, gives names by `plan.datasets`. Asks Spark for the leaves of analysed plans
and starts no job. What is not known by name is left out.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.io.frames import Frames
from headrace.io.later import LaterFrame
from headrace.io.sinks import Sink
from headrace.io.write import WriteToSpark
from headrace.plan.datasets import Dataset, Touched, files_at, kafka_of

_LOG = logging.getLogger(__name__)


def touched_by(frames: Frames, session: Any) -> Touched:
    """Give what is read and written; a frame or sink that cannot be asked is left out."""
    inputs: dict[Dataset, None] = {}
    outputs: dict[Dataset, None] = {}
    for name, frame in frames.sources.items():
        try:
            inputs.update(dict.fromkeys(_of_frame(frame)))
        except Exception as error:  # noqa: BLE001 (a name is not worth a run)
            _LOG.debug("%s: what it reads has no name: %s", name, error)
    for name, sink in frames.sinks.items():
        try:
            outputs.update(dict.fromkeys(_of_sink(sink, session)))
        except Exception as error:  # noqa: BLE001 (the same)
            _LOG.debug("%s: what it writes has no name: %s", name, error)
    return Touched(inputs=tuple(inputs), outputs=tuple(outputs))


def _of_frame(frame: Any) -> Iterator[Dataset]:
    if isinstance(frame, LaterFrame):
        yield from frame.names
    elif (java := getattr(frame, "_jdf", None)) is not None:
        for leaf in _listed(java.queryExecution().analyzed().collectLeaves()):
            yield from _of_leaf(leaf)
    elif (plan := getattr(frame, "_plan", None)) is not None:  # of Spark Connect
        for read in _reads(plan.to_proto(frame.sparkSession.client)):
            yield from _of_read(read)


def _listed(found: Any) -> Iterator[Any]:
    """Go through a sequence of Scala's."""
    for index in range(found.size()):
        yield found.apply(index)


def _of_leaf(leaf: Any) -> Iterator[Dataset]:
    match leaf.getClass().getSimpleName():
        case "LogicalRelation":
            table = leaf.catalogTable()
            if table.isDefined():
                at = table.get().location().toString()
                yield from _named(files_at(at, table.get().identifier().unquotedString()))
            elif leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
                for path in _listed(leaf.relation().location().rootPaths()):
                    yield from _named(files_at(path.toString()))
        case "StreamingRelation":
            path = leaf.dataSource().options().get("path")
            if path.isDefined():
                yield from _named(files_at(_absolute(path.get())))
        case "StreamingRelationV2" if leaf.sourceName() == "kafka":
            options = leaf.extraOptions()
            asked = {name: options.get(name) or "" for name in ("subscribe", "assign")}
            yield from kafka_of(options.get("kafka.bootstrap.servers") or "", asked)


def _reads(message: Any) -> Iterator[Any]:
    """Find the reads of a plan of Spark Connect, wherever they stand in it."""
    if message.DESCRIPTOR.name == "Read":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _reads(each)


def _of_read(read: Any) -> Iterator[Dataset]:
    if not read.HasField("data_source"):
        return
    source = read.data_source
    options: Mapping[str, str] = {name.lower(): text for name, text in source.options.items()}
    if source.format.lower() == "kafka":
        yield from kafka_of(options.get("kafka.bootstrap.servers", ""), options)
        return
    for path in [*source.paths, *filter(None, [options.get("path")])]:
        yield from _named(files_at(_absolute(path)))


def _of_sink(sink: Sink, session: Any) -> Iterator[Dataset]:
    yield from sink.names()
    if isinstance(sink, WriteToSpark):
        if sink.path is not None:
            yield from _named(files_at(_absolute(sink.path)))
        elif sink.table is not None and hasattr(session, "_jsparkSession"):
            yield from _named(_of_table(sink.table, session))


def _of_table(name: str, session: Any) -> Dataset | None:
    """Name a table by where it lies, or would: readers of it are told the same."""
    state = session._jsparkSession.sessionState()  # noqa: SLF001 (PySpark has no other door)
    found = state.sqlParser().parseTableIdentifier(name)
    catalog = state.catalog()
    if catalog.tableExists(found):
        table = catalog.getTableMetadata(found)
        return files_at(table.location().toString(), table.identifier().unquotedString())
    named = catalog.qualifyIdentifier(found)
    return files_at(catalog.defaultTablePath(named).toString(), named.unquotedString())


def _named(found: Dataset | None) -> Iterator[Dataset]:
    if found is not None:
        yield found


def _absolute(path: str) -> str:
    return path if ":/" in path else os.path.abspath(path)
