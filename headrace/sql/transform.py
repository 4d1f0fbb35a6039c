"""Makes steps of a query: rows meet as the query asks, window by window, and DuckDB answers.

```text
each row by itself     rows -> answer                          as many at once as a bundle brings
rows with equal keys   rows -> deal by key -> group -> answer  in `DEALT` parts
all rows of a window   rows -> one key     -> group -> answer  in one place
```
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints import schemas
from apache_beam.utils.windowed_value import WindowedValue

from headrace.errors import UnsupportedTransformError
from headrace.io.row_classes import made_class
from headrace.sql.columns import (
    Field,
    fields_of,
    python_types,
    rows_of,
    sql_type,
    table_of,
    table_of_values,
    values_of,
)
from headrace.sql.database import Database, narrowed
from headrace.sql.queries import PCOLLECTION, ROW, Meet, Query, check_ddl, read_query

#: Into how many parts keys are dealt: each asks DuckDB once for each window.
DEALT = 16
#: How many rows are asked about at once where each stands by itself.
AT_ONCE = 8192

Tables = Mapping[str, tuple[Field, ...]]


@dataclass(frozen=True)
class Asked:
    """A query with all that workers must know of it."""

    query: Query
    tables: Tables  # those that it reads
    schema: bytes  # of its rows, from which any process can make their class
    text: str  # as DuckDB gets it

    @property
    def made(self) -> Any:
        """Give the class of its rows; Beam makes it once a process."""
        return schemas.named_tuple_from_schema(schema_pb2.Schema.FromString(self.schema))


class Sql(beam.PTransform):  # type: ignore[misc]
    """Answers a query over one collection, over several by tags, or over none."""

    def __init__(self, query: str, *, dialect: str = "", ddl: str = "", label: str = "") -> None:
        super().__init__(label or "Sql")
        if ddl:
            check_ddl(ddl, dialect=dialect)
        self._text = query
        self._dialect = dialect

    def expand(self, inputs: Any) -> Any:
        """Add the steps; gives the collection of rows."""
        if isinstance(inputs, beam.pvalue.PBegin):
            asked = ask(self._text, {}, self._dialect)
            rows = inputs | "Once" >> beam.Create([None])
            return rows | "Answer" >> beam.ParDo(_Alone(asked)).with_output_types(asked.made)
        named = inputs if isinstance(inputs, dict) else {PCOLLECTION: inputs}
        asked = ask(
            self._text, {name: one.element_type for name, one in named.items()}, self._dialect
        )
        if asked.query.meet is Meet.NOBODY:
            (table,) = asked.query.tables
            step = beam.ParDo(_Rows(asked)).with_output_types(asked.made)
            return named[table] | "Answer" >> step
        _see_windows(named)
        if not asked.query.tables:
            msg = "the query reads none of the collections that it is given"
            raise UnsupportedTransformError(msg)
        dealt = [
            named[table] | f"Deal {table}" >> beam.ParDo(_Deal(asked, table))
            .with_output_types(tuple[int, tuple[str, Any]])
            for table in asked.query.tables
        ]
        return (
            dealt
            | "Together" >> beam.Flatten()
            | "Meet" >> beam.GroupByKey()
            | "Answer" >> beam.ParDo(_Met(asked)).with_output_types(asked.made)
        )


def ask(text: str, element_types: Mapping[str, Any], dialect: str = "") -> Asked:
    """Read a query over collections of these types; find out what its rows are.

    Raises:
        UnsupportedTransformError: it cannot be answered here; says why.
    """
    tables: dict[str, tuple[Field, ...]] = {}
    count = 0
    for name, kind in element_types.items():
        try:
            tables[name] = fields_of(kind, count)
        except UnsupportedTransformError as e:
            msg = f"{name}: {e}"
            raise UnsupportedTransformError(msg) from e
        count += len(tables[name])
    words = {
        name: {one.name: sql_type(one.arrow) for one in fields} for name, fields in tables.items()
    }
    query = read_query(text, words, dialect=dialect)
    read = {name: tables[name] for name in query.tables}
    nothing: dict[str, pa.Table] = {name: table_of(of, [], []) for name, of in read.items()}
    if query.meet is Meet.NOBODY:
        (table,) = query.tables
        nothing[table] = _numbered(nothing[table])
    final = narrowed(query.text, nothing)
    database = Database(final)
    try:
        schema = database.answer(nothing).schema
    finally:
        database.close()
    if query.meet is Meet.NOBODY:
        schema = pa.schema([one for one in schema if one.name != ROW])
    carried = {
        one.arrow.field(0).name: one.python
        for fields in read.values() for one in fields if one.carried
    }
    made = made_class(python_types(schema, carried))
    return Asked(query, read, schemas.named_tuple_to_schema(made).SerializeToString(), final)


def _see_windows(named: Mapping[str, Any]) -> None:
    windows = {name: one.windowing.windowfn for name, one in named.items()}
    first = next(iter(windows.values()))
    if any(other != first for other in windows.values()):
        said = ", ".join(f"{name}: {windowfn}" for name, windowfn in windows.items())
        msg = f"collections that meet in a query must have the same windows; they have {said}"
        raise UnsupportedTransformError(msg)


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(range(len(table)), pa.int64()))


class _Asking(beam.DoFn):  # type: ignore[misc]
    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._database: Database | None = None

    def answer(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        if self._database is None:
            self._database = Database(self._asked.text)
        return self._database.answer(tables)

    def teardown(self) -> None:
        """Give DuckDB's memory back."""
        if self._database is not None:
            self._database.close()
            self._database = None


class _Alone(_Asking):
    """A query that reads nothing."""

    def process(self, _once: None) -> Iterator[Any]:
        """Answer it."""
        yield from rows_of(self.answer({}), self._asked.made, [])


class _Rows(_Asking):
    """Each row by itself: time and windows of a result are those of its row."""

    def start_bundle(self) -> None:
        """Begin with no rows."""
        self._waiting: list[tuple[Any, Any, Any]] = []

    def process(
        self, row: Any, time: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        """Take a row; answer where there are enough."""
        self._waiting.append((row, time, window))
        if len(self._waiting) >= AT_ONCE:
            yield from self._results()

    def finish_bundle(self) -> Iterator[Any]:
        """Answer what is left."""
        if self._waiting:
            yield from self._results()

    def _results(self) -> Iterator[WindowedValue]:
        waiting, self._waiting = self._waiting, []
        (name,) = self._asked.query.tables
        carried: list[Any] = []
        table = table_of(self._asked.tables[name], [one[0] for one in waiting], carried)
        found = self.answer({name: _numbered(table)})
        rows = rows_of(found.drop_columns([ROW]), self._asked.made, carried)
        for row, at in zip(rows, found.column(ROW).to_pylist(), strict=True):
            _, time, window = waiting[at]
            yield WindowedValue(row, time, (window,))


class _Deal(beam.DoFn):  # type: ignore[misc]
    """Gives each row the part in which it meets others."""

    def __init__(self, asked: Asked, table: str) -> None:
        self._table = table
        self._fields = asked.tables[table]
        keys = asked.query.keys.get(table, ())
        known = {one.name: one for one in asked.tables[table]}
        self._read = [(name, known[name].encode) for name in keys]

    def process(self, row: Any) -> Iterator[Any]:
        """Deal a row out."""
        part = 0
        for name, encode in self._read:
            value = getattr(row, name)
            if encode is not None and value is not None:
                value = encode(value)
            part = zlib.crc32(repr(value).encode("utf-8", "surrogatepass"), part)
        # Without the row's class: it may be the script's own, which no worker can import.
        yield part % DEALT, (self._table, values_of(self._fields, row))


class _Met(_Asking):
    """Answers the query for the rows that have met in one window."""

    def process(self, met: Any) -> Iterator[Any]:
        """Answer it."""
        rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self._asked.tables}
        for table, row in met[1]:
            rows[table].append(row)
        carried: list[Any] = []
        tables = {
            name: table_of_values(self._asked.tables[name], of, carried)
            for name, of in rows.items()
        }
        yield from rows_of(self.answer(tables), self._asked.made, carried)
