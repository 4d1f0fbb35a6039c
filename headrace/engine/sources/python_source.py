"""Python data sources with a stream reader on our own loop: the reader itself is asked for offsets.

Spark Connect knows such a source by its name alone; its class is found among those of this process,
where it was defined to be registered. Offsets are asked for here, partitions are read by workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, InputPartition

from headrace.engine.sources.stream_plans import StreamPlan
from headrace.engine.spark.launch import numbers

#: Rows of a reader that gives them one by one, in one batch of columns.
_ROWS = 8192


def source_class(name: str) -> type[DataSource] | None:
    """Find the newest class of a data source by the name of its format."""
    waiting, found = [DataSource], None
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            try:
                named = str(one.name()).lower()
            except Exception:  # noqa: BLE001 (an abstract class of somebody's)
                continue
            found = one if named == name.lower() else found
    return found


class ReaderSource:
    """A stream reader of the user's; a position is an offset of its own. Knows no rows.

    Args:
        reader: of a Python data source.
    """

    look_seconds = 0.05

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._is_fixed = False
        self._end: Any = None  # of a run that reads what is there now

    def first(self) -> Any:
        """Ask the reader where it begins."""
        return self._reader.initialOffset()

    def advanced(self, start: Any) -> Any:
        """Ask the reader how far it could go."""
        if not self._is_fixed:
            return _latest(self._reader, start)
        if self._end is None:
            self._end = _latest(self._reader, start)
        return self._end

    def fix(self) -> None:
        """Let the reader's first answer be the end."""
        self._is_fixed = True

    def promised(self, start: Any, end: Any) -> None:
        """A reader's offsets are its own: nobody knows what they mean."""
        del start, end

    def counted(self, end: Any) -> None:
        """Tell the reader what it need not keep."""
        self._reader.commit(end)

    def close(self) -> None:
        """Let the reader let go."""
        stop = getattr(self._reader, "stop", None)
        if stop is not None:
            stop()


class PythonSource(ReaderSource):
    """A stream reader of Spark Connect.

    Args:
        plan: of the streaming DataFrame.
        session: in which rows are read.
        made_by: the class of the data source.
    """

    def __init__(self, plan: StreamPlan, session: Any, made_by: type[DataSource]) -> None:
        self._plan, self._session = plan, session
        self._schema = plan.leaf_schema()
        source = made_by(CaseInsensitiveDict(plan.read.options))
        try:
            reader: Any = source.streamReader(self._schema)
        except (NotImplementedError, PySparkNotImplementedError):
            reader = _Simple(source.simpleStreamReader(self._schema))
        super().__init__(reader)

    def rows(self, start: Any, end: Any) -> Any:
        """Give the rows between two offsets, each partition of the reader by a task."""
        reader, schema = self._reader, self._schema
        parts = list(reader.partitions(start, end))

        def read(batches: Iterable[Any]) -> Iterator[Any]:
            from headrace.engine.sources.python_source import batches_of

            for batch in batches:
                for at in batch.column("id").to_pylist():
                    yield from batches_of(reader.read(parts[at]), schema)

        return self._plan.over(numbers(self._session, len(parts)).mapInArrow(read, schema))


class _Simple:
    """A reader that gives rows and offset together, as one that gives them apart."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def initialOffset(self) -> Any:
        return self._reader.initialOffset()

    def latestOffset(self, start: Any) -> Any:
        _, end = self._reader.read(start)
        return end

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self._reader.readBetweenOffsets(*partition.value))

    def commit(self, end: Any) -> None:
        self._reader.commit(end)


def _latest(reader: Any, start: Any) -> Any:
    """Ask for the latest offset; since Spark 4.2 a reader is told where it is."""
    wanted = len(inspect.signature(reader.latestOffset).parameters)
    if wanted == 0:
        return reader.latestOffset()
    if wanted == 1:
        return reader.latestOffset(start)
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def batches_of(rows: Iterable[Any], schema: Any) -> Iterator[Any]:
    """Give what a reader read as batches of columns, on a worker."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = to_arrow_schema(schema)

    def made(held: list[Any]) -> Any:
        data = zip(*held, strict=True)
        arrays = [pa.array(list(c), f.type) for c, f in zip(data, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    held: list[Any] = []
    for row in rows:
        if isinstance(row, pa.RecordBatch):
            yield row
            continue
        held.append(row)
        if len(held) >= _ROWS:
            yield made(held)
            held = []
    if held:
        yield made(held)
