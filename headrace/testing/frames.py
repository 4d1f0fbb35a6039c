"""DataFrames without Spark: enough of Spark's interface for reads, sinks and tests of pipelines.

A `LocalSession` makes them; `ReadFromSpark` reads them, `WriteToSpark(function=f)` hands them to
`f`. They hold an Arrow table and compute nothing: what a pipeline does with rows, Beam does.
"""

from __future__ import annotations

import datetime
import decimal
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError, UnsupportedTransformError
from headrace.io.columns import arrow_schema
from headrace.io.storage import LocalStorage, Storage
from headrace.plan.names import PARTITION_COLUMN, TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.testing.ddl import columns_of_words
from headrace.testing.writing import LocalWriter

#: A plain column, and one of those that `ReadFromSpark` asks for beside the row's own.
_PLAIN = re.compile(r"`((?:[^`]|``)*)`")
_BESIDE = re.compile(r".* AS `((?:[^`]|``)*)`", re.S)
_BEFORE_1970 = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
#: Seconds that still fit into Beam's time range; `headrace.io.sources` asks Spark the same.
_MAX_SECONDS = 9_223_372_036_854
_MICROS = 1_000_000

#: Takes a table, gives one with other columns.
Selection = Callable[[pa.Table], pa.Table]


class LocalSession:
    """Stands where a pipeline would have a `SparkSession`."""

    def createDataFrame(
        self, data: Iterable[Any] | pa.Table, schema: spark.StructType | str
    ) -> LocalFrame:
        """Make a DataFrame of rows: dicts, tuples in the order of the columns, or plain values.

        Args:
            data: the rows, or an Arrow table with these columns.
            schema: `name string, price double`, or a StructType.
        """
        columns = schema if isinstance(schema, spark.StructType) else columns_of_words(schema)
        table = data if isinstance(data, pa.Table) else table_of(data, columns)
        return LocalFrame(self, table, columns)

    def storage(self) -> Storage:
        """Give where paths of sinks lie: this machine's disk, from the folder we are in."""
        return LocalStorage(os.getcwd())


def table_of(rows: Iterable[Any], columns: spark.StructType) -> pa.Table:
    """Make an Arrow table of rows."""
    schema = arrow_schema(columns)
    found = [_fields(row, columns.names) for row in rows]
    try:
        return pa.Table.from_arrays(
            [
                pa.array([_plain(row[i]) for row in found], type=field.type)
                for i, field in enumerate(schema)
            ],
            schema=schema,
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        msg = f"rows do not fit {columns.simpleString()}: {error}"
        raise ColumnTypeError(msg) from error


def _fields(row: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return [row.get(name) for name in names]
    if isinstance(row, (tuple, list)):
        if len(row) != len(names):
            msg = f"the row {row!r} has {len(row)} values for {len(names)} columns"
            raise ColumnTypeError(msg)
        return row
    if len(names) == 1:
        return [row]
    return [getattr(row, name) for name in names]


def _plain(value: Any) -> Any:
    """Give a value as Arrow takes it: times without a zone are UTC's, maps are lists of pairs."""
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.timezone.utc)
    if isinstance(value, Mapping):
        return [(key, _plain(found)) for key, found in value.items()]
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


class LocalFrame:
    """Rows with columns, bounded."""

    isStreaming = False

    def __init__(self, session: LocalSession, table: pa.Table, columns: spark.StructType) -> None:
        self.sparkSession = session
        self.schema = columns
        self._table = table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def write(self) -> LocalWriter:
        """What writes the rows to files."""
        return LocalWriter(self._table, self.sparkSession.storage())

    def collect(self) -> list[Row]:
        """Give all rows."""
        return list(self._rows())

    def toArrow(self) -> pa.Table:
        """Give the rows as an Arrow table."""
        return self._table

    def toPandas(self) -> Any:
        """Give the rows as a pandas DataFrame."""
        return self._table.to_pandas()

    def count(self) -> int:
        """Give how many rows there are."""
        return int(self._table.num_rows)

    def isEmpty(self) -> bool:
        """Whether there are no rows."""
        return self.count() == 0

    def first(self) -> Row | None:
        """Give the first row; None if there is none."""
        return next(self._rows(), None)

    def selectExpr(self, *expressions: str) -> LocalFrame:
        """Choose columns as `ReadFromSpark` does; other expressions need Spark."""
        names, select = selection(expressions)
        table = select(self._table)
        columns = spark.StructType([self.schema[name] for name in names])
        return LocalFrame(self.sparkSession, table, columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows as tasks take them."""
        return iter(self._table.to_batches())

    def _rows(self) -> Iterator[Row]:
        make = Row(*self.columns) if self.columns else Row
        found = [
            [_shown(value, field.dataType) for value in column.to_pylist()]
            for column, field in zip(self._table.columns, self.schema.fields, strict=True)
        ]
        if not found:
            return iter([make()] * self._table.num_rows)
        return (make(*values) for values in zip(*found, strict=True))


def selection(expressions: Sequence[str]) -> tuple[list[str], Selection]:
    """Read what `ReadFromSpark` asks of a DataFrame; give the row's own columns, and what does it.

    Raises:
        UnsupportedTransformError: an expression is another one.
    """
    own: list[str] = []
    beside: list[str] = []
    for expression in expressions:
        if plain := _PLAIN.fullmatch(expression):
            own.append(plain.group(1).replace("``", "`"))
        elif named := _BESIDE.fullmatch(expression):
            beside.append(named.group(1).replace("``", "`"))
        else:
            msg = f"the expression {expression!r} needs Spark; rows in one process are as given"
            raise UnsupportedTransformError(msg)

    def select(table: pa.Table) -> pa.Table:
        found = [table.column(name) for name in own] + [_beside(table, name) for name in beside]
        return pa.Table.from_arrays(found, names=[*own, *beside])

    return own, select


def _beside(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Compute a column that stands beside the row's own, as Spark would."""
    if name.startswith(PARTITION_COLUMN):
        column = table.column(name.removeprefix(PARTITION_COLUMN))
        whole = pa.types.is_integer(column.type)
        return column.cast(pa.int64() if whole else pa.string())
    for prefix in (TIME_OR_DROP_COLUMN, TIME_COLUMN):
        if name.startswith(prefix):
            values = table.column(name.removeprefix(prefix)).to_pylist()
            return pa.chunked_array([pa.array([_micros(v) for v in values], type=pa.int64())])
    msg = f"the column {name!r} needs Spark"
    raise UnsupportedTransformError(msg)


def _micros(value: Any) -> int | None:
    """Give an event time in microseconds; None where there is no such time."""
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        return (value - _BEFORE_1970) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - _BEFORE_1970.date()).days * 86_400 * _MICROS
    if not -_MAX_SECONDS <= value <= _MAX_SECONDS:  # NaN too
        return None
    if isinstance(value, decimal.Decimal):
        return int((value * _MICROS).to_integral_value(decimal.ROUND_HALF_UP))
    return value * _MICROS if isinstance(value, int) else round(value * 1e6)


def _shown(value: Any, kind: spark.DataType) -> Any:
    """Give a value of Arrow's as Spark would."""
    if value is None:
        return None
    if isinstance(kind, spark.StructType):
        return Row(*kind.names)(*(_shown(value[f.name], f.dataType) for f in kind.fields))
    if isinstance(kind, spark.ArrayType):
        return [_shown(one, kind.elementType) for one in value]
    if isinstance(kind, spark.MapType):
        return {_shown(k, kind.keyType): _shown(v, kind.valueType) for k, v in value}
    if isinstance(kind, spark.BinaryType):
        return bytearray(value)
    if isinstance(kind, spark.TimestampType):
        return value.astimezone().replace(tzinfo=None)  # Spark gives the session's local time
    return value
