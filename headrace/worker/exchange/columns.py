"""Rows <-> columns: Arrow batches of a DataFrame become elements, elements become Arrow batches.

`RowReader` works column by column and never builds a dict per row. `ColumnWriter` is the writer of
a channel that leaves the plan. Knows Beam's schemas and Arrow's types, nothing of Spark.
"""

from __future__ import annotations

import datetime
import logging
import numbers
import reprlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Any, NoReturn

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
from headrace.worker.batched.batches import Columns, Meta
from headrace.worker.batched.weights import WAITING_BYTES, weight
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple

_LOG = logging.getLogger(__name__)

#: The partition of all rows of a source that has none of its own, and that of rows which should
#: name one and do not.
ONE_PARTITION = ""
NO_PARTITION = "\x00"

#: Rows held before they become a batch, at most; more would cost memory, not gain speed.
MAX_HELD_ROWS = 10_000
#: A batch of columns is worth this many super tuples of rows: its cost is per column, not per row.
BATCH_SUPER_TUPLES = 4

#: Shows values in errors.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)

Column = Callable[[pa.Array], Iterable[Any]]


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
        windowed_coder: Any,
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
        self._width = len(coder.schema.fields)
        if now is not None:
            self.meta = GlobalWindows.windowed_value(None, Timestamp(micros=now))
        self._ceiling = ceiling
        self._step = step
        self.dropped = 0  # rows that were left out, as they had no time
        self.highs: dict[str, int] = {}  # the greatest time read so far, for each partition

    def read(self, batch: pa.RecordBatch, most: int) -> Iterator[list[Any]]:
        """Give the rows of a batch, at most so many at a time."""
        for rows, _ in self.timed(batch, most):
            yield rows

    def timed(self, batch: pa.RecordBatch, most: int) -> Iterator[tuple[list[Any], Meta]]:
        """Give the rows of a batch and what is known of them, at most so many at a time.

        Raises:
            ColumnTypeError: a row has no event time.
        """
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
        for place in range(self._width, batch.num_columns):
            name = batch.schema.field(place).name
            if name.startswith((TIME_COLUMN, TIME_OR_DROP_COLUMN)):
                times = batch.column(place)
                if times.null_count:
                    _refuse_time(self._step, name.removeprefix(TIME_COLUMN))
            elif name.startswith(PARTITION_COLUMN):
                partitions = batch.column(place)
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


def _struct(schema: Any) -> Callable[[list[pa.Array], int], Iterable[Any]]:
    made = schemas.named_tuple_from_schema(schema)
    make = partial(tuple.__new__, made)  # a named tuple's own constructor is three times slower
    readers = [_column(field.type) for field in schema.fields]

    def rows(columns: list[pa.Array], count: int) -> Iterable[Any]:
        if not columns:
            return repeat(made(), count)
        return map(make, zip(*map(_read, readers, columns), strict=True))

    return rows


def _read(reader: Column | None, column: pa.Array) -> Iterable[Any]:
    return column.to_pylist() if reader is None else reader(column)


def _column(field: Any) -> Column | None:
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


def _read_instants(column: pa.Array) -> list[Any]:
    micros = column.cast(pa.int64()).to_pylist()
    return [None if m is None else Timestamp(micros=m) for m in micros]


def _read_structs(
    rows: Callable[[list[pa.Array], int], Iterable[Any]], column: pa.Array
) -> Iterable[Any]:
    found = rows(column.flatten(), len(column))
    if not column.null_count:
        return found
    valid = column.is_valid().to_pylist()
    return [row if there else None for row, there in zip(found, valid, strict=True)]


def _read_lists(inner: Column, column: pa.Array) -> list[Any]:
    bounds = column.offsets.to_pylist()
    first = bounds[0]
    items = list(inner(column.values.slice(first, bounds[-1] - first)))
    return _cut(column, bounds, lambda a, b: items[a - first : b - first])


def _read_maps(keys: Column | None, values: Column | None, column: pa.Array) -> list[Any]:
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


def _cut(column: pa.Array, bounds: list[int], make: Callable[[int, int], Any]) -> list[Any]:
    spans = zip(bounds[:-1], bounds[1:], strict=True)
    if not column.null_count:
        return [make(a, b) for a, b in spans]
    valid = column.is_valid().to_pylist()
    return [make(a, b) if ok else None for (a, b), ok in zip(spans, valid, strict=True)]


def decode(schema: pa.Schema, payloads: Iterable[pa.Array]) -> Iterator[pa.RecordBatch]:
    """Give the batches that a `ColumnWriter` wrote."""
    for column in payloads:
        for payload in column:
            yield pa.ipc.read_record_batch(payload.as_buffer(), schema)


class ColumnWriter:
    """Collects elements and ships them as Arrow batches, to the shard they are on."""

    def __init__(
        self,
        channel: int,
        name: str,
        schema: pa.Schema,
        send: Callable[[SuperTuple], None],
        *,
        shard: int,
        super_tuple_bytes: int,
    ) -> None:
        self._channel, self._name, self._schema, self._send = channel, name, schema, send
        self._shard = shard
        self._target_bytes = super_tuple_bytes * BATCH_SUPER_TUPLES
        self._getters = Getters(name, schema.names)
        # A plain column needs no preparing: `_array` looks at the types of all its values at once.
        self._prepare = [
            _preparer(name, field.name, field.type)
            if pa.types.is_nested(field.type) or pa.types.is_timestamp(field.type)
            else None
            for field in schema
        ]
        self._held: list[Any] = []  # one tuple of column values per row
        self._held_bytes = 0  # of texts and the like among them
        self._limit = 256  # grows or shrinks to what fills `_target_bytes`
        self._seq = 0

    def process(self, element: Any) -> None:
        """Take one windowed value."""
        self.write([element.value], element)

    def write(self, values: list[Any], meta: Meta) -> None:
        """Take a batch."""
        get = self._getters
        # Fields are taken out at once: the element may be changed by its maker later on.
        rows = [get[type(value)](value) for value in values]
        # An element in two windows is two elements.
        if type(meta) is Columns:
            self._held += (row for row, w in zip(rows, meta.windows, strict=True) for _ in w)
        else:
            for _ in meta.windows:
                self._held += rows
        self._held_bytes += weight(rows)
        if len(self._held) >= self._limit or self._held_bytes >= WAITING_BYTES:
            self._ship_held()

    def flush(self) -> None:
        """Ship what is held."""
        self._ship_held()

    def _ship_held(self) -> None:
        heavy, self._held_bytes = self._held_bytes >= WAITING_BYTES, 0
        while self._held:
            size = _light_head(self._held) if heavy else self._limit
            held, self._held = self._held[:size], self._held[size:]
            self._ship(held)

    def _ship(self, held: list[Any]) -> None:
        payload = self._batch(held).serialize().to_pybytes()
        count = len(held)
        self._send(
            SuperTuple(
                self._shard, Rank.DATA, self._channel, PayloadKind.COLUMNS, self._seq, count,
                payload,
            )
        )
        self._seq += count
        self._adapt(count, len(payload))

    def _batch(self, held: list[Any]) -> pa.RecordBatch:
        try:
            arrays = self._arrays(held)
        except ColumnTypeError:
            self._blame(held)
            raise
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _arrays(self, held: list[Any]) -> list[pa.Array]:
        return list(map(self._array, self._schema, self._prepare, zip(*held, strict=True)))

    def _blame(self, held: list[Any]) -> None:
        """Find the first row that does not fit, and name it."""
        for row in held:
            try:
                self._arrays([row])
            except ColumnTypeError as error:
                values = zip(self._schema.names, row, strict=True)
                told = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in values)
                msg = f"{error}. The row is ({told})"
                raise ColumnTypeError(msg) from None

    def _adapt(self, rows: int, size: int) -> None:
        """Hold as many rows next time as fill the target size."""
        self._limit = max(64, min(MAX_HELD_ROWS, rows * self._target_bytes // max(1, size)))

    def _array(self, field: pa.Field, prepare: Any, values: tuple[Any, ...]) -> pa.Array:
        prepared: Iterable[Any] = values
        if prepare is not None:
            prepared = [None if v is None else prepare(v) for v in values]
        else:
            wrong = [found for found in set(map(type, values)) if not _fits(field.type, found)]
            if wrong:
                value = next(v for v in values if type(v) in wrong)
                why = f"{_SHORT.repr(value)} ({type(value).__qualname__}) is no {field.type}"
                _refuse(self._name, field.name, why)
        try:
            array = pa.array(prepared, type=field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            _refuse(self._name, field.name, str(error))
        _check_nulls(self._name, field.name, field, array)
        return array


def _light_head(rows: list[Any]) -> int:
    """Give how many of the first rows fit into what may wait; at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += weight(row)
        if total > WAITING_BYTES:
            return max(1, count)
    return len(rows)


class Getters(dict[type, Callable[[Any], Any]]):
    """For each class of elements, the function that gives the values of the columns."""

    def __init__(self, name: str, columns: list[str]) -> None:
        super().__init__()
        self._name, self._columns = name, columns

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        """Decide once per class."""
        self[kind] = getter = self._getter(kind)
        return getter

    def _getter(self, kind: type) -> Callable[[Any], Any]:
        columns = self._columns
        if issubclass(kind, dict):
            return self._from_dict
        named = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
        if kind.__module__ == "apache_beam.pvalue" and kind.__name__ == "Row":
            return self._from_row
        if named is not None:
            strange = set(named) ^ set(columns)
            if strange:
                self._differ(strange)
            if issubclass(kind, tuple) and list(named) == columns:
                return lambda value: value  # a tuple that is the row already
            if len(columns) == 1:
                only = columns[0]
                return lambda value: (getattr(value, only),)
            return attrgetter(*columns)
        if issubclass(kind, tuple | list):
            return self._from_tuple
        if len(columns) == 1:
            return lambda value: (value,)
        msg = f"{self._name}: an element of type {kind.__qualname__} has no fields"
        raise ColumnTypeError(msg)

    def _from_dict(self, value: dict[str, Any]) -> Iterable[Any]:
        strange = value.keys() - set(self._columns)
        if strange:
            self._differ(strange)
        return tuple(map(value.get, self._columns))

    def _from_row(self, value: Any) -> Iterable[Any]:
        return self._from_dict(value.as_dict())

    def _from_tuple(self, value: Any) -> Any:
        if len(value) != len(self._columns):
            msg = (
                f"{self._name}: an element has {len(value)} fields, "
                f"the schema has {len(self._columns)} columns"
            )
            raise ColumnTypeError(msg)
        return value

    def _differ(self, names: Iterable[Any]) -> None:
        told = ", ".join(sorted(map(repr, names)))
        msg = f"{self._name}: the element and the schema do not share {told}"
        raise ColumnTypeError(msg)


def _preparer(name: str, path: str, kind: pa.DataType) -> Callable[[Any], Any]:
    """Give what a value must go through before Arrow takes it."""
    if pa.types.is_timestamp(kind):
        return partial(_instant if kind.tz else _wall_clock, name, path)
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        names = [f.name for f in fields]
        inner = [_preparer(name, f"{path}.{f.name}", f.type) for f in fields]
        return partial(_dict, Getters(f"{name}: column {path!r}", names), names, inner)
    if pa.types.is_map(kind):
        key = _preparer(name, f"{path}[key]", kind.key_type)
        return partial(_pairs, key, _preparer(name, f"{path}[value]", kind.item_type))
    if pa.types.is_list(kind):
        return partial(_list, name, path, _preparer(name, f"{path}[]", kind.value_type))
    return partial(_leaf, name, path, kind)


def _fits(kind: pa.DataType, found: type) -> bool:
    """Whether Arrow takes such values as they are; it would cut 1.5 down to 1 without a word."""
    if found is type(None):
        return True
    if pa.types.is_integer(kind):
        return issubclass(found, numbers.Integral) and not issubclass(found, bool)
    if pa.types.is_floating(kind):
        return issubclass(found, numbers.Real) and not issubclass(found, bool)
    if pa.types.is_string(kind):
        return issubclass(found, str)
    if pa.types.is_binary(kind):
        return issubclass(found, bytes | bytearray | memoryview)
    if pa.types.is_date(kind):
        return issubclass(found, datetime.date) and not issubclass(found, datetime.datetime)
    return True


def _leaf(name: str, path: str, kind: pa.DataType, value: Any) -> Any:
    if not _fits(kind, type(value)):
        _refuse(name, path, f"{_SHORT.repr(value)} is no {kind}")
    return value


def _apply(prepare: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else prepare(value)


def _instant(name: str, path: str, value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.micros  # type: ignore[no-any-return]
    if not isinstance(value, datetime.datetime):
        _refuse(name, path, f"{_SHORT.repr(value)} is no instant")
    if value.tzinfo is None:
        _refuse(name, path, f"{_SHORT.repr(value)} has no time zone, so it names no instant")
    return (value - _EPOCH) // _MICROSECOND


def _wall_clock(name: str, path: str, value: Any) -> Any:
    if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
        _refuse(name, path, f"{_SHORT.repr(value)} is no datetime without a time zone")
    return value


def _dict(getters: Getters, names: list[str], inner: list[Any], value: Any) -> dict[str, Any]:
    found = getters[type(value)](value)
    return dict(zip(names, map(_apply, inner, found), strict=True))


def _pairs(key: Any, item: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(_apply(key, k), _apply(item, v)) for k, v in value.items()]


def _list(name: str, path: str, inner: Any, value: Any) -> list[Any]:
    if isinstance(value, str | bytes):
        _refuse(name, path, f"{_SHORT.repr(value)} is no list")
    return [_apply(inner, v) for v in value]


def _check_nulls(name: str, path: str, field: pa.Field, array: pa.Array) -> None:
    """Spark believes a schema that says "not null" and would read rubbish."""
    if not field.nullable and array.null_count:
        _refuse(name, path, "a value is missing, and the schema says that none is")
    kind = field.type
    if pa.types.is_struct(kind):
        there = array.drop_null()
        for i in range(kind.num_fields):
            inner = kind.field(i)
            _check_nulls(name, f"{path}.{inner.name}", inner, there.field(i))
    elif pa.types.is_map(kind):
        _check_nulls(name, f"{path}[value]", kind.item_field, array.items)
    elif pa.types.is_list(kind):
        _check_nulls(name, f"{path}[]", kind.value_field, array.values)


def _refuse(name: str, path: str, why: str) -> NoReturn:
    msg = f"{name}: column {path!r}: {why}"
    raise ColumnTypeError(msg)
