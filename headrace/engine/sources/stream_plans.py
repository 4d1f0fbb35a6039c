"""Reads what a streaming DataFrame of Spark Connect is, and makes bounded ones of the same kind.

A DataFrame of Connect is a plan that nobody has resolved yet: a tree of relations. Its streaming
read says format, options, schema and paths; what stands above it, row by row, holds for any rows of
that read. So a batch of the stream is the same tree with another leaf. Where a tree does more than
that, it is refused: the loop brings batches, and a batch is not the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.engine.sources.inputs import same_path
from headrace.engine.spark.launch import known
from headrace.errors import OptionError, UnsupportedTransformError

#: Relations that look at each row for itself, or do nothing to a bounded frame.
_ROW_BY_ROW = frozenset({
    "project", "filter", "subquery_alias", "to_df", "with_columns", "with_columns_renamed", "drop",
    "hint", "to_schema", "unpivot", "repartition", "repartition_by_expression", "map_partitions",
    "with_watermark", "fill_na", "drop_na", "replace", "collect_metrics",
})  # fmt: skip
#: Relations with two inputs of which one may be a stream, if the other is not.
_WITH_A_TABLE = frozenset({"join", "lateral_join"})
#: Joins that keep no row of a side for which nothing has come yet, by the side that streams.
_JOINS = {"left": ("INNER", "LEFT_OUTER", "LEFT_SEMI", "LEFT_ANTI", "CROSS", "UNSPECIFIED"),
          "right": ("INNER", "RIGHT_OUTER", "CROSS", "UNSPECIFIED")}
#: Options that decide what is read, not how fast or from when on.
_WHAT = ("path", "subscribe", "subscribepattern", "assign", "topic", "table", "streamname")
#: Formats whose streams are lists of files.
FILE_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text", "xml", "avro", "binaryfile"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRead:
    """The one streaming read of a DataFrame."""

    format: str  # in lower case
    schema: str
    options: Mapping[str, str]  # by lower-case names
    paths: tuple[str, ...]
    plan_id: int

    def option(self, name: str, default: str = "") -> str:
        """Give an option, whatever its case."""
        return self.options.get(name.lower(), default)

    def most(self, step: str, name: str) -> int:
        """Give an option that bounds a batch; 0: it is not set.

        Raises:
            OptionError: it is no whole number above 0; so says Spark.
        """
        given = self.options.get(name.lower())
        if given is None:
            return 0
        if not given.strip().isdecimal() or int(given) < 1:
            msg = f"{step}: {name}={given!r} is no whole number above 0"
            raise OptionError(msg)
        return int(given)


class StreamOf(Protocol):
    """A streaming DataFrame, as the source behind it is to know it."""

    @property
    def read(self) -> StreamRead:
        """What it reads."""

    def over(self, rows: Any) -> Any:
        """Give the DataFrame with the rows of a bounded one in place of its stream."""

    def leaf_schema(self) -> Any:
        """Give what columns the read itself has, those of partitions too."""


class StreamPlan:
    """The plan of a streaming DataFrame.

    Args:
        name: the read's, for refusals.
        frame: the DataFrame, of a session of Spark Connect.

    Raises:
        UnsupportedTransformError: it is more than a read and what is done to each of its rows.
    """

    def __init__(self, name: str, frame: Any) -> None:
        self._name = name
        self._frame = frame
        client = frame.sparkSession.client
        self._tree = frame._plan.plan(client)  # noqa: SLF001 (a frame is its plan)
        found = list(self._streams(self._tree))
        if len(found) != 1:
            what = "reads several streams" if found else "has no streaming read in its plan"
            remedy = "give each stream a ReadFromSpark of its own, and flatten"
            raise self._refusal(what, remedy)
        self._way = found[0]
        leaf = self._leaf(self._tree)
        if leaf.WhichOneof("rel_type") != "read" or not leaf.read.HasField("data_source"):
            what, remedy = "reads a table as a stream", "read its files by their format"
            raise self._refusal(what, remedy)
        source = leaf.read.data_source
        options = {key.lower(): value for key, value in source.options.items()}
        paths = tuple(source.paths) or tuple(filter(None, [options.pop("path", "")]))
        self.read = StreamRead(
            format=source.format.lower(), schema=source.schema, options=options, paths=paths,
            plan_id=leaf.common.plan_id,
        )

    def over(self, rows: Any) -> Any:
        """Give the DataFrame with the rows of a bounded one in place of its stream."""
        tree = type(self._tree)()
        tree.CopyFrom(self._tree)
        leaf = self._leaf(tree)
        made = rows._plan.plan(rows.sparkSession.client)  # noqa: SLF001
        leaf.CopyFrom(made)
        leaf.common.plan_id = self.read.plan_id  # by which columns are known further up
        return known(type(rows)(_given(tree), rows.sparkSession), self._frame.schema)

    def leaf_schema(self) -> Any:
        """Ask the server what columns the read itself has, those of partitions too."""
        leaf = self._leaf(self._tree)
        return type(self._frame)(_given(leaf), self._frame.sparkSession).schema

    def _streams(self, tree: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Give the ways to all streaming leaves; refuse what lies on one and is not row by row."""
        kind = tree.WhichOneof("rel_type")
        if kind in ("read", "relation_changes"):
            if getattr(tree, kind).is_streaming:
                yield way
            return
        if kind in ("sql", "with_relations"):
            what = "is made by SQL, and what it reads is not to be seen from here"
            remedy = "make it by readStream and the methods of DataFrames"
            raise self._refusal(what, remedy)
        inner = getattr(tree, kind)
        inputs = [
            field.name
            for field, _ in inner.ListFields()
            if field.message_type is not None and field.message_type.name == "Relation"
            and field.name in ("input", "left", "right", "left_input", "right_input")
        ]
        for at in inputs:
            below = list(self._streams(getattr(inner, at), (*way, kind, at)))
            if below:
                self._check(kind, at, inner)
            yield from below

    def _check(self, kind: str, side: str, inner: Any) -> None:
        if kind in _ROW_BY_ROW:
            return
        if kind in _WITH_A_TABLE:
            word = inner.DESCRIPTOR.fields_by_name["join_type"].enum_type.values_by_number[
                inner.join_type
            ].name.removeprefix("JOIN_TYPE_")
            if word in _JOINS.get(side, ()):
                return
            kind = f"{word.lower().replace('_', ' ')} join"
        shown = kind.replace("_", " ")
        what = f"is made by {shown} over its stream, which would see one batch at a time"
        remedy = "do that in the pipeline: a window, a combine or state"
        raise self._refusal(what, remedy)

    def _leaf(self, tree: Any) -> Any:
        for step in self._way:
            tree = getattr(tree, step)
        return tree

    def _refusal(self, what: str, remedy: str) -> UnsupportedTransformError:
        return UnsupportedTransformError(
            f"{self._name}: the streaming DataFrame {what}. On Spark Connect headrace reads "
            f"streams by a loop of its own, which can bring the rows of one source; {remedy}, or "
            "run on a classic session, such as headrace.session() makes"
        )


def _given(tree: Any) -> Any:
    """Give a tree of relations as a plan of the client's."""
    from pyspark.sql.connect.plan import LogicalPlan

    class Given(LogicalPlan):  # type: ignore[misc]
        def plan(self, session: Any) -> Any:
            del session
            return tree

    return Given(None)


def input_of_plan(frame: Any) -> str:
    """Describe the source of a streaming DataFrame in the words of `inputs.input_of`."""
    read = StreamPlan("ReadFromSpark", frame).read
    if read.format in FILE_FORMATS:
        return same_path(f"FileSource[{','.join(read.paths)}]")
    found = [f"{name}={read.option(name)}" for name in _WHAT if read.option(name)]
    return f"{read.format}[{', '.join(found)}]"
