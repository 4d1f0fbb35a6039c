"""Decides what a query of Beam SQL asks for, and which rows must meet to answer it.

Takes the text and the columns of its tables, gives it in DuckDB's words with the way to deal it
out. Beam's dialect is Calcite's: identifiers in backticks, names as they are written, whole numbers
divided to whole numbers. Refuses, by name, what has no meaning here. Knows neither rows nor DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp, parse
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from headrace.errors import UnsupportedTransformError

#: The table of a collection that has no tag.
PCOLLECTION = "PCOLLECTION"
#: The column by which a result of `Meet.NOBODY` names its row.
ROW = "headrace_row"
#: How the type begins of columns whose values are handed on and not looked at.
CARRIED = "STRUCT(headrace_carried_"
#: Group windows of Beam SQL: they would put rows into windows inside the query.
_GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION")
#: Rows with equal keys of these types are equal in SQL exactly if they are in Python.
_KEY_TYPES = ("BIGINT", "VARCHAR", "BOOLEAN", "BLOB", "DATE", "TIMESTAMP")
#: Whatever makes an answer depend on more than one group, or on one row.
_ACROSS = (
    exp.Window, exp.Limit, exp.Offset, exp.Order, exp.Unnest, exp.Lateral, exp.Qualify, exp.Fetch,
    exp.TableSample,
)
_SEVERAL_GROUPINGS = ("grouping_sets", "cube", "rollup")


class Meet(Enum):
    """Which rows must come together to answer a query."""

    NOBODY = "each row by itself"
    KEYS = "rows with equal keys, window by window"
    ALL = "all rows of a window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query in DuckDB's words."""

    text: str
    meet: Meet
    tables: tuple[str, ...]  # those that it reads
    keys: Mapping[str, tuple[str, ...]]  # for Meet.KEYS: the columns of the key in each table


class _BeamSql(Postgres):  # type: ignore[misc]
    """Calcite as Beam sets it up; divides like PostgreSQL."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE

    class Tokenizer(Postgres.Tokenizer):  # type: ignore[misc]
        """Backticks alone are quotes of names."""

        IDENTIFIERS = ["`"]


class _ZetaSql(BigQuery):  # type: ignore[misc]
    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE


_DIALECTS = {"": _BeamSql, "calcite": _BeamSql, "zetasql": _ZetaSql}

Columns = Mapping[str, Mapping[str, str]]  # by table and column: the type, in DuckDB's words


def read_query(text: str, columns: Columns, *, dialect: str = "") -> Query:
    """Read a query over tables with these columns.

    Raises:
        UnsupportedTransformError: it cannot be read, or asks for what has no meaning here.
    """
    chosen = _DIALECTS.get((dialect or "").lower())
    if chosen is None:
        msg = f"the dialect {dialect!r} is not known; there are calcite and zetasql"
        raise UnsupportedTransformError(msg)
    try:
        statements = [one for one in parse(text, dialect=chosen) if one is not None]
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            msg = "one SELECT is expected, and nothing beside it"
            raise UnsupportedTransformError(msg)
        _refuse_group_windows(statements[0])
        tree = qualify(statements[0], schema=_schema(columns), dialect=chosen)
        tree = annotate_types(tree, schema=_schema(columns), dialect=chosen)
    except SqlglotError as e:
        msg = f"the query cannot be read: {e}"
        raise UnsupportedTransformError(msg) from e
    _divide_whole_numbers(tree)
    named = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = tuple(dict.fromkeys(
        table.name for table in tree.find_all(exp.Table) if table.name not in named
    ))
    for table in tables:
        if table not in columns:
            there = ", ".join(columns) or "none"
            msg = f"there is no collection {table}; there are: {there}"
            raise UnsupportedTransformError(msg)
    _see_carried(tree, columns)
    _name_results(tree)
    meet, keys = _meeting(tree, columns)
    if meet is Meet.NOBODY:
        (table,) = tree.find_all(exp.Table)
        tree = tree.select(exp.column(ROW, table=table.alias_or_name, quoted=True))
    return Query(
        text=tree.sql(dialect="duckdb", identify=True), meet=meet, tables=tables, keys=keys
    )


def check_ddl(text: str, *, dialect: str = "") -> None:
    """See that what stands before a query only sets options, which mean nothing here.

    Raises:
        UnsupportedTransformError: it makes or changes something.
    """
    try:
        statements = [one for one in parse(text, dialect=_DIALECTS.get(dialect, _BeamSql)) if one]
    except SqlglotError as e:
        msg = f"the ddl cannot be read: {e}"
        raise UnsupportedTransformError(msg) from e
    for one in statements:
        if not isinstance(one, exp.Set):
            msg = (
                f"ddl: {one.sql()[:80]} is not supported: a query sees the collections that it is "
                "given, and no tables of a catalog. Read the table in the pipeline, and hand its "
                "collection in by a tag"
            )
            raise UnsupportedTransformError(msg)


def _schema(columns: Columns) -> dict[str, dict[str, str]]:
    return {table: dict(fields) for table, fields in columns.items()}


def _refuse_group_windows(tree: exp.Expression) -> None:
    for call in tree.find_all(exp.Anonymous):
        name = str(call.this).upper()
        if name.split("_")[0] in _GROUP_WINDOWS:
            msg = (
                f"{name} is not supported: put the collection into windows before the query, with "
                "beam.WindowInto; the query is then answered window by window"
            )
            raise UnsupportedTransformError(msg)


def _see_carried(tree: exp.Expression, columns: Columns) -> None:
    """Refuse to look into values that a query can only hand on: DuckDB sees where they stand."""
    known = {table.alias_or_name: columns.get(table.name, {}) for table in tree.find_all(exp.Table)}
    alone = tree.find(exp.Distinct, exp.SetOperation) is None
    for column in tree.find_all(exp.Column):
        if not known.get(column.table, {}).get(column.name, "").startswith(CARRIED):
            continue
        above = column.parent.parent if isinstance(column.parent, exp.Alias) else column.parent
        if not (alone and isinstance(above, exp.Select)):
            msg = (
                f"the query looks into the column {column.name}, whose type SQL does not know; it "
                "can only be selected as it is. Turn it into numbers or text before the query"
            )
            raise UnsupportedTransformError(msg)


def _divide_whole_numbers(tree: exp.Expression) -> None:
    """Let whole numbers be divided as such: the way by doubles loses digits beyond 2 ** 53."""
    for division in list(tree.find_all(exp.Div)):
        sides = (division.this, division.expression)
        if all(side.is_type(*exp.DataType.INTEGER_TYPES) for side in sides):
            whole = exp.IntDiv(
                this=exp.paren(division.this), expression=exp.paren(division.expression)
            )
            division.replace(exp.paren(whole))


def _name_results(tree: exp.Expression) -> None:
    """Give columns without a name one that Python can have; Calcite's is EXPR$0, EXPR$1, ..."""
    select = tree
    while isinstance(select, exp.SetOperation):
        select = select.left
    for number, column in enumerate(select.selects):
        if isinstance(column, exp.Alias) and column.alias.startswith("_"):
            column.set("alias", exp.to_identifier(f"EXPR_{number}", quoted=True))


def _meeting(
    tree: exp.Expression, columns: Columns
) -> tuple[Meet, dict[str, tuple[str, ...]]]:
    """Decide which rows must meet; anything that is not surely apart meets in one place."""
    selects = list(tree.find_all(exp.Select))
    if selects != [tree] or tree.args.get("distinct") or tree.find(*_ACROSS) is not None:
        return Meet.ALL, {}
    found = {table.alias_or_name: table.name for table in tree.find_all(exp.Table)}
    group, joins = tree.args.get("group"), tree.args.get("joins") or []
    if len(found) == 1 and not joins:
        ((alias, table),) = found.items()
        if group is None and tree.args.get("having") is None and tree.find(exp.AggFunc) is None:
            return Meet.NOBODY, {}
        if group is None or any(group.args.get(kind) for kind in _SEVERAL_GROUPINGS):
            return Meet.ALL, {}
        keys = [_column(by, {alias: table}, columns) for by in group.expressions]
        if keys and None not in keys:
            return Meet.KEYS, {table: tuple(key[1] for key in keys if key)}
        return Meet.ALL, {}
    if len(joins) != 1 or group is not None or tree.find(exp.AggFunc) is not None:
        return Meet.ALL, {}
    return _join_keys(joins[0], found, columns)


def _join_keys(
    join: exp.Join, found: Mapping[str, str], columns: Columns
) -> tuple[Meet, dict[str, tuple[str, ...]]]:
    """Two tables that are joined where columns of the same type are equal, and perhaps more."""
    if len(set(found.values())) != 2 or join.args.get("on") is None or join.method:
        return Meet.ALL, {}
    keys: dict[str, list[str]] = {table: [] for table in found.values()}
    for term in _terms(join.args["on"]):
        if not isinstance(term, exp.EQ):
            continue
        left, right = (_column(side, found, columns) for side in (term.left, term.right))
        if left is None or right is None or left[0] == right[0]:
            continue
        if columns[left[0]][left[1]] != columns[right[0]][right[1]]:
            continue
        for table, column in (left, right):
            keys[table].append(column)
    if not all(keys.values()):
        return Meet.ALL, {}
    return Meet.KEYS, {table: tuple(names) for table, names in keys.items()}


def _terms(condition: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(condition, exp.And):
        yield from _terms(condition.left)
        yield from _terms(condition.right)
    elif isinstance(condition, exp.Paren):
        yield from _terms(condition.this)
    else:
        yield condition


def _column(
    by: exp.Expression, found: Mapping[str, str], columns: Columns
) -> tuple[str, str] | None:
    """Give table and column, if it is a column by which rows may be dealt out."""
    if not isinstance(by, exp.Column) or by.table not in found:
        return None
    table = found[by.table]
    return (table, by.name) if columns[table].get(by.name) in _KEY_TYPES else None
