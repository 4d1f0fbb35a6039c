"""Follows the columns of a DataFrame through Spark's plan of it, down to the source of its rows.

Takes an analysed plan, gives what each column is in the source. Knows projections and our own
expression for the event time; what a source gives and which expressions leave it as it is,
`file_scans`, `topic_scans` and `reader_scans` know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from headrace.plan.names import TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.plan.scans import MICROS, ScanColumn

_LOG = logging.getLogger(__name__)

#: Spark's types whose columns are, in Arrow, just what Spark hands over.
ARROW: Mapping[str, Any] = {
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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a plan: where it stands in its source, and its type in Spark's words."""

    path: tuple[str, ...]
    kind: str


#: Columns by their ids in a plan, in order: name, and what was found.
Columns = dict[int, tuple[str, Found]]
Below = Mapping[int, tuple[str, Found]]


class NotPlain(Exception):
    """Why Spark has to read."""


def if_plain(what: str, find: Callable[[], T]) -> T | None:
    """Give what is found; None: Spark must read, since it is more or is not understood.

    Args:
        what: is read, for the log.
        find: finds it, or raises `NotPlain`.
    """
    try:
        return find()
    except NotPlain as reason:
        _LOG.debug("Spark reads the %s of a DataFrame: %s", what, reason)
    except Exception as error:  # noqa: BLE001 (another Spark may have other plans: it costs speed)
        _LOG.debug("what the %s of a DataFrame are was not understood: %r", what, error)
    return None


def columns_of(
    plan: Any, source: Callable[[Any], Columns], picked: Callable[[Any, Below], Found]
) -> Columns:
    """Give the columns of a plan.

    Args:
        plan: analysed.
        source: gives the columns of what is no projection, or raises `NotPlain`.
        picked: follows an expression down to a column below it.
    """
    if plan.getClass().getSimpleName() != "Project":
        return source(plan)
    below = columns_of(plan.child(), source, picked)
    made = dict(_projected(item, below, picked) for item in each(plan.projectList()))
    if len(made) != plan.projectList().size():
        msg = "a column comes twice"
        raise NotPlain(msg)
    return made


def _projected(
    item: Any, below: Below, picked: Callable[[Any, Below], Found]
) -> tuple[int, tuple[str, Found]]:
    number, name = item.exprId().id(), str(item.name())
    if item.getClass().getSimpleName() == "AttributeReference":
        return number, (name, below[number][1])
    if name.startswith((TIME_COLUMN, TIME_OR_DROP_COLUMN)):
        # Our own expression for the event time; no column of a row has such a name.
        (of,) = {reference.exprId().id() for reference in each(item.references().toSeq())}
        found = below[of][1]
        if found.kind != "timestamp":
            msg = f"its event time is a {found.kind or 'computed value'}"
            raise NotPlain(msg)
        return number, (name, Found(found.path, MICROS))
    return number, (name, picked(item.child(), below))


def output_of(relation: Any) -> Columns:
    """Give the columns of a source, each as what it is there."""
    return {
        item.exprId().id(): (
            item.name(), Found((item.name(),), str(item.dataType().simpleString()))
        )
        for item in each(relation.output())
    }


def field_of(expression: Any, below: Below) -> Found:
    """Follow fields of structs down to a column, or raise `NotPlain`."""
    match expression.getClass().getSimpleName():
        case "AttributeReference":
            return below[expression.exprId().id()][1]
        case "GetStructField":
            outer = field_of(expression.child(), below)
            field = expression.childSchema().fields()[expression.ordinal()]
            return Found((*outer.path, str(field.name())), str(field.dataType().simpleString()))
        case other:
            msg = f"it computes {other}"
            raise NotPlain(msg)


def scan_columns(found: Columns) -> tuple[ScanColumn, ...]:
    """Give the columns of rows, or raise `NotPlain` where a worker would give others."""
    columns = []
    for name, column in found.values():
        if column.kind not in ARROW and column.kind != MICROS:
            msg = f"column {name} is {column.kind}"
            raise NotPlain(msg)
        if any("." in part for part in column.path):
            msg = f"column {name} has a dot in its name"
            raise NotPlain(msg)
        columns.append(ScanColumn(name, column.path, column.kind))
    if not columns:
        msg = "it has no columns"
        raise NotPlain(msg)
    return tuple(columns)


def partitions_below(frame: Any) -> list[Any]:
    """Give what Spark's source has planned for each partition of a batch of a stream."""
    rows = frame._jdf.queryExecution().analyzed().rdd()  # noqa: SLF001 (no other door)
    while rows.getClass().getSimpleName() != "DataSourceRDD":
        (above,) = each(rows.dependencies())
        if above.getClass().getSimpleName() != "OneToOneDependency":
            msg = "its rows have changed places"
            raise NotPlain(msg)
        rows = above.rdd()
    return [partition.inputPartition().get() for partition in rows.getPartitions()]


def each(found: Any) -> Iterator[Any]:
    """Give the items of one of Scala's sequences."""
    return (found.apply(at) for at in range(found.size()))
