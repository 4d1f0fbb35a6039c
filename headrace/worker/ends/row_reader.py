"""Columns to rows: Arrow batches of a DataFrame become elements with their times.

Works column by column and never builds a dict per row. Knows Beam's schemas and Arrow's types,
nothing of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import RowCoder
from apache_beam.coders.coders import LengthPrefixCoder
from apache_beam.portability import common_urns
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints import schemas
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import ColumnTypeError, TransportError
from headrace.plan.names import PARTITION_COLUMN, TIME_COLUMN, TIME_OR_DROP_COLUMN
from headrace.plan.schema_shapes import shape_of_schema
from headrace.worker.batched.batches import BATCH_VALUES, Columns, Meta
from headrace.worker.batched.column_batches import TimeColumns, part_of
from headrace.worker.beam_types import Proto, Value, WindowedCoder
from headrace.worker.columns.values import ColumnValues, of_arrow, of_source
from headrace.worker.ends.file_scan import ScannedBatch

_LOG = logging.getLogger(__name__)

#: The partition of all rows of a source that has none of its own, and that of rows which should
#: name one and do not.
ONE_PARTITION = ""
NO_PARTITION = "\x00"

Column = Callable[[pa.Array], Iterable[Value]]


class RowReader:
    """Turns batches of columns into rows, with their times.

    The row's own columns come first. Behind them may stand two that `ReadFromSpark` asked Spark
    for: the row's event time, and which of the source's partitions it is from.

    Args:
        windowed_coder: the coder of the channel that the rows enter by.
        now: the time of rows that bring none; Beam's least if not given.
        ceiling: rows of a later time count for nothing in `highs`.
        step: the name of the read, for messages.
    """

    #: Rows begin in the global window, with Beam's least timestamp.
    meta = GlobalWindows.windowed_value(None)

    def __init__(
        self,
        windowed_coder: WindowedCoder,
        *,
        now: int | None = None,
        ceiling: int | None = None,
        step: str = "ReadFromSpark",
    ) -> None:
        coder = windowed_coder.wrapped_value_coder
        while isinstance(coder, LengthPrefixCoder):
            coder = coder.value_coder()
        if not isinstance(coder, RowCoder):
            msg = f"the rows of a DataFrame cannot be read with {coder!r}"
            raise TransportError(msg)
        self._rows = _struct(coder.schema)
        self._shape = shape_of_schema(coder.schema)
        self._readers = [_column(field.type) for field in coder.schema.fields]
        self._width = len(coder.schema.fields)
        #: Whether `columns` can be asked; what is inside a struct has to be told by its type alone.
        self.gives_columns = not any(_reads_inside(field.type) for field in coder.schema.fields)
        if now is not None:
            self.meta = GlobalWindows.windowed_value(None, Timestamp(micros=now))
        self._ceiling = ceiling
        self._step = step
        self.dropped = 0  # rows that were left out, as they had no time
        self.highs: dict[str, int] = {}  # the greatest time read so far, for each partition

    def read(self, batch: pa.RecordBatch, most: int) -> Iterator[list[Value]]:
        """Give the rows of a batch, at most so many at a time."""
        for rows, _ in self.timed(batch, most):
            yield rows

    def timed(
        self, batch: pa.RecordBatch | ScannedBatch, most: int
    ) -> Iterator[tuple[list[Value], Meta]]:
        """Give the rows of a batch and what is known of them, at most so many at a time.

        Raises:
            ColumnTypeError: a row has no event time.
        """
        if isinstance(batch, ScannedBatch):
            batch = batch.record_batch()
        batch = self._with_times(batch)
        own, size = batch.columns[: self._width], batch.num_rows
        times = self._times(batch) if size else None
        for start in range(0, size, most):
            columns = [column.slice(start, most) for column in own]
            rows = list(self._rows(columns, min(most, size - start)))
            if times is None:
                yield rows, self.meta
            else:
                count = len(rows)
                yield rows, Columns(
                    times.slice(start, most).to_pylist(),
                    [self.meta.windows] * count,
                    [self.meta.pane_info] * count,
                )

    def columns(
        self, batch: pa.RecordBatch | ScannedBatch, most: int
    ) -> Iterator[tuple[ColumnValues, Meta] | tuple[list[Value], Meta]]:
        """Give the rows of a batch as columns, at most so many at a time.

        Where the columns are not what the shape says, they come as objects.

        Raises:
            ColumnTypeError: a row has no event time.
        """
        timed: pa.RecordBatch | None = None
        values: ColumnValues | None = None
        if isinstance(batch, ScannedBatch):
            timed, values = self._unread(batch)
            if values is None:
                batch = batch.record_batch()
        if values is None:
            timed = self._with_times(batch)
            if not timed.num_rows:
                return
            own = timed.columns[: self._width]
            values = of_arrow(own, self._shape, timed.num_rows, self._readers)
        if values is None:
            yield from self.timed(timed, min(most, BATCH_VALUES))
            return
        size = len(values)
        times = self._times(timed)
        meta: Meta = self.meta
        if times is not None:
            meta = TimeColumns(times.to_numpy(), self.meta.windows, self.meta.pane_info)
        for start in range(0, size, most):
            end = min(start + most, size)
            yield values.slice(start, end), part_of(meta, start, end)

    def _unread(self, batch: ScannedBatch) -> tuple[pa.RecordBatch, ColumnValues | None]:
        """Give what stands beside the rows, and the rows, of which no column is read yet."""
        beside = batch.columns_from(self._width)
        dropping = any(
            name.startswith(TIME_OR_DROP_COLUMN) and beside.column(name).null_count
            for name in beside.schema.names
        )
        if dropping:
            return beside, None
        return beside, of_source(batch.column, self._shape, batch.num_rows, self._readers)

    def _with_times(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Leave rows without a time out, if that was asked for."""
        for place in range(self._width, batch.num_columns):
            times = batch.column(place)
            name = batch.schema.field(place).name
            if name.startswith(TIME_OR_DROP_COLUMN) and times.null_count:
                if not self.dropped:
                    _LOG.warning(
                        "%s: rows are left out, as column %r has no time for them", self._step,
                        name.removeprefix(TIME_OR_DROP_COLUMN),
                    )
                self.dropped += times.null_count
                return batch.filter(times.is_valid())
        return batch

    def _times(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Find the event times, and note how far they have come."""
        times = partitions = None
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name.startswith((TIME_COLUMN, TIME_OR_DROP_COLUMN)):
                times = column
                if times.null_count:
                    _refuse_time(self._step, name.removeprefix(TIME_COLUMN))
            elif name.startswith(PARTITION_COLUMN):
                partitions = column
        if times is None:
            return None
        counted = times
        if self._ceiling is not None and pc.max(times).as_py() > self._ceiling:
            below = pc.less_equal(times, self._ceiling)
            counted = times.filter(below)
            partitions = None if partitions is None else partitions.filter(below)
        for name, time in _greatest(counted, partitions):
            before = self.highs.get(name)
            self.highs[name] = time if before is None else max(before, time)
        return times


def _refuse_time(step: str, column: str) -> NoReturn:
    msg = (
        f"{step}: column {column!r} gives the rows their event time, and in one of them it has no "
        "value, or one that is no time; leave such rows out with ReadFromSpark(..., "
        "bad_times='drop'), or with df.where(...) and read them apart"
    )
    raise ColumnTypeError(msg)


def _greatest(times: pa.Array, partitions: pa.Array | None) -> Iterable[tuple[str, int]]:
    """Give each partition's greatest time; without partitions, all rows are of one."""
    if not len(times):
        return ()
    if partitions is None:
        return ((ONE_PARTITION, pc.max(times).as_py()),)
    # The threads would cost more than a batch of some thousand rows gains by them.
    table = pa.table([partitions, times], ["name", "time"])
    found = table.group_by("name", use_threads=False).aggregate([("time", "max")])
    names = [NO_PARTITION if n is None else str(n) for n in found.column("name").to_pylist()]
    return zip(names, found.column("time_max").to_pylist(), strict=True)


def _struct(schema: Proto) -> Callable[[list[pa.Array], int], Iterable[Value]]:
    made = schemas.named_tuple_from_schema(schema)
    make = partial(tuple.__new__, made)  # a named tuple's own constructor is three times slower
    readers = [_column(field.type) for field in schema.fields]

    def rows(columns: list[pa.Array], count: int) -> Iterable[Value]:
        if not columns:
            return repeat(made(), count)
        return map(make, zip(*map(_read, readers, columns), strict=True))

    return rows


def _read(reader: Column | None, column: pa.Array) -> Iterable[Value]:
    return column.to_pylist() if reader is None else reader(column)


def _column(field: Proto) -> Column | None:
    """Give the reader of one column; None if Arrow's own conversion is right."""
    match field.WhichOneof("type_info"):
        case "row_type":
            return partial(_read_structs, _struct(field.row_type.schema))
        case "array_type":
            inner = _column(field.array_type.element_type)
            return None if inner is None else partial(_read_lists, inner)
        case "map_type":
            keys, values = field.map_type.key_type, field.map_type.value_type
            return partial(_read_maps, _column(keys), _column(values))
        case "logical_type" if field.logical_type.urn == common_urns.micros_instant.urn:
            return _read_instants
        case _:
            return None


def _reads_inside(field: Proto) -> bool:
    """Whether a field of a struct needs a reader of its own; an instant is known as such."""
    if field.WhichOneof("type_info") != "row_type" or field.nullable:
        return False
    inside = [inner.type for inner in field.row_type.schema.fields]
    return any(map(_reads_inside, inside)) or any(
        _column(kind) not in (None, _read_instants)
        for kind in inside
        if kind.WhichOneof("type_info") != "row_type" or kind.nullable
    )


def _read_instants(column: pa.Array) -> list[Value]:
    micros = column.cast(pa.int64()).to_pylist()
    return [None if m is None else Timestamp(micros=m) for m in micros]


def _read_structs(
    rows: Callable[[list[pa.Array], int], Iterable[Value]], column: pa.Array
) -> Iterable[Value]:
    found = rows(column.flatten(), len(column))
    if not column.null_count:
        return found
    valid = column.is_valid().to_pylist()
    return [row if there else None for row, there in zip(found, valid, strict=True)]


def _read_lists(inner: Column, column: pa.Array) -> list[Value]:
    bounds = column.offsets.to_pylist()
    first = bounds[0]
    items = list(inner(column.values.slice(first, bounds[-1] - first)))
    return _cut(column, bounds, lambda a, b: items[a - first : b - first])


def _read_maps(keys: Column | None, values: Column | None, column: pa.Array) -> list[Value]:
    bounds = column.offsets.to_pylist()
    first, size = bounds[0], bounds[-1] - bounds[0]
    pairs = list(
        zip(
            _read(keys, column.keys.slice(first, size)),
            _read(values, column.items.slice(first, size)),
            strict=True,
        )
    )
    return _cut(column, bounds, lambda a, b: dict(pairs[a - first : b - first]))


def _cut(column: pa.Array, bounds: list[int], make: Callable[[int, int], Value]) -> list[Value]:
    spans = zip(bounds[:-1], bounds[1:], strict=True)
    if not column.null_count:
        return [make(a, b) for a, b in spans]
    valid = column.is_valid().to_pylist()
    return [make(a, b) if ok else None for (a, b), ok in zip(spans, valid, strict=True)]
