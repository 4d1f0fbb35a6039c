"""Elements to columns: the writer of a channel that leaves the plan as Arrow batches.

Knows Arrow's types, nothing of Spark. What does not fit a column is refused with its value and row.
"""

from __future__ import annotations

import datetime
import numbers
import reprlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NoReturn

import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import ColumnTypeError
from headrace.plan.order import PortOrder
from headrace.worker.batched.batches import Columns, Meta, columns
from headrace.worker.batched.cause import Cause
from headrace.worker.batched.column_batches import as_rows, each_in_one_window
from headrace.worker.batched.weights import WAITING_BYTES, weight
from headrace.worker.beam_types import Element, Key, OfOne, Value
from headrace.worker.checks.verified_columns import verify_arrays
from headrace.worker.columns.values import ColumnValues
from headrace.worker.ends.column_fields import arrays_of
from headrace.worker.ends.element_fields import Getters
from headrace.worker.exchange.order_numbers import Numberer, pack
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple

#: Rows held before they become a batch, at most; more would cost memory, not gain speed.
MAX_HELD_ROWS = 10_000
#: A batch of columns is worth this many super tuples of rows: its cost is per column, not per row.
BATCH_SUPER_TUPLES = 4

#: Shows values in errors.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


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
        order: PortOrder | None = None,
        verified: bool = False,
    ) -> None:
        self._verified = verified  # columns that come as such are made of objects too
        self._channel, self._name, self._schema, self._send = channel, name, schema, send
        self._numberer = None if order is None else Numberer(order)
        self._width = 0 if order is None else order.number_bytes
        self._numbers: list[int] = []  # of the rows held, in an ordered run
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
        self._held: list[Value] = []  # one tuple of column values per row
        self._held_bytes = 0  # of texts and the like among them
        self._limit = 256  # grows or shrinks to what fills `_target_bytes`
        self._columns: list[pa.RecordBatch] = []  # came as columns, and wait for more
        self._column_bytes = 0
        self._seq = 0

    @property
    def takes_columns(self) -> bool:
        """Whether columns are of use: a row that is numbered is looked at by itself."""
        return self._numberer is None

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns; they stay columns where objects would give the same."""
        arrays = arrays_of(values, self._schema) if each_in_one_window(meta) else None
        if arrays is None:
            for rows, its in as_rows(values, meta):
                self.write(rows, its)
            return
        if self._verified:
            rows = [self._getters[type(value)](value) for value in values.objects()]
            verify_arrays(self._name, self._schema.names, self._arrays(rows), arrays)
        self._ship_held()  # they came before
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._column_bytes += batch.nbytes
        if self._column_bytes >= self._target_bytes:
            self._columns.append(batch)
            self._ship_columns()
        else:  # a copy: one column would keep all of the batch that it came with
            self._columns.append(pa.concat_batches([batch, batch[:0]]))

    def _ship_columns(self) -> None:
        """Ship what came as columns, in parts of about the size that is aimed at."""
        if not self._columns:
            return
        size, self._column_bytes = self._column_bytes, 0
        held, self._columns = self._columns, []
        batch = held[0] if len(held) == 1 else pa.concat_batches(held)
        rows = batch.num_rows
        parts = max(1, min(rows, round(size / self._target_bytes)))
        for i in range(parts):
            start, end = rows * i // parts, rows * (i + 1) // parts
            self._ship_batch(batch.slice(start, end - start))

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        if self._numberer is None:
            self.write([element.value], element)
            return
        value = element.value
        row = self._getters[type(value)](value)
        number = self._numberer.one(Cause.number)
        for _ in element.windows:
            self._held.append(row)
            self._numbers.append(number)
        self._look(weight((row,)))

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        self._ship_columns()  # they came before
        get = self._getters
        # Fields are taken out at once: the element may be changed by its maker later on.
        rows = [get[type(value)](value) for value in values]
        # An element in two windows is two elements.
        if self._numberer is not None:
            self._hold_numbered(rows, columns(values, meta))
        elif type(meta) is Columns:
            self._held += (row for row, w in zip(rows, meta.windows, strict=True) for _ in w)
        else:
            for _ in meta.windows:
                self._held += rows
        self._look(weight(rows))

    def _look(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        if len(self._held) >= self._limit or self._held_bytes >= WAITING_BYTES:
            self._ship_held()

    def _hold_numbered(self, rows: list[Value], meta: Columns) -> None:
        assert self._numberer is not None
        causes = [Cause.number] * len(rows) if meta.numbers is None else meta.numbers
        numbers = self._numberer.each(causes)  # type: ignore[arg-type]  # it refuses what has none
        for row, windows, number in zip(rows, meta.windows, numbers, strict=True):
            for _ in windows:
                self._held.append(row)
                self._numbers.append(number)

    def flush(self) -> None:
        """Ship what is held."""
        self._ship_held()
        self._ship_columns()
        if self._numberer is not None:
            self._numberer.forget()

    def _ship_held(self) -> None:
        heavy, self._held_bytes = self._held_bytes >= WAITING_BYTES, 0
        while self._held:
            size = _light_head(self._held) if heavy else self._limit
            held, self._held = self._held[:size], self._held[size:]
            numbers, self._numbers = self._numbers[:size], self._numbers[size:]
            size = self._ship_batch(
                self._batch(held), pack(numbers, self._width) if numbers else b""
            )
            self._adapt(len(held), size)

    def _ship_batch(self, batch: pa.RecordBatch, numbers: bytes = b"") -> int:
        """Ship rows; give the bytes that they take."""
        payload = batch.serialize().to_pybytes()
        count = batch.num_rows
        self._send(
            SuperTuple(
                self._shard, Rank.DATA, self._channel, PayloadKind.COLUMNS, self._seq, count,
                payload, numbers,
            )
        )
        self._seq += count
        return len(payload)

    def _batch(self, held: list[Value]) -> pa.RecordBatch:
        try:
            arrays = self._arrays(held)
        except ColumnTypeError:
            self._blame(held)
            raise
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _arrays(self, held: list[Value]) -> list[pa.Array]:
        return list(map(self._array, self._schema, self._prepare, zip(*held, strict=True)))

    def _blame(self, held: list[Value]) -> None:
        """Find the first row that does not fit, and name it."""
        for row in held:
            try:
                self._arrays([row])
            except ColumnTypeError as error:
                values = zip(self._schema.names, row, strict=True)
                shown = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in values)
                msg = f"{error}. The row is ({shown})"
                raise ColumnTypeError(msg) from None

    def _adapt(self, rows: int, size: int) -> None:
        """Hold as many rows next time as fill the target size."""
        self._limit = max(64, min(MAX_HELD_ROWS, rows * self._target_bytes // max(1, size)))

    def _array(
        self, field: pa.Field, prepare: OfOne | None, values: tuple[Value, ...]
    ) -> pa.Array:
        prepared: Iterable[Value] = values
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


def _light_head(rows: list[Value]) -> int:
    """Give how many of the first rows fit into what may wait; at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += weight(row)
        if total > WAITING_BYTES:
            return max(1, count)
    return len(rows)


def _preparer(name: str, path: str, kind: pa.DataType) -> OfOne:
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


def _leaf(name: str, path: str, kind: pa.DataType, value: Value) -> Value:
    if not _fits(kind, type(value)):
        _refuse(name, path, f"{_SHORT.repr(value)} is no {kind}")
    return value


def _apply(prepare: OfOne, value: Value) -> Value:
    return None if value is None else prepare(value)


def _instant(name: str, path: str, value: Value) -> int:
    if isinstance(value, Timestamp):
        return value.micros  # type: ignore[no-any-return]
    if not isinstance(value, datetime.datetime):
        _refuse(name, path, f"{_SHORT.repr(value)} is no instant")
    if value.tzinfo is None:
        _refuse(name, path, f"{_SHORT.repr(value)} has no time zone, so it names no instant")
    return (value - _EPOCH) // _MICROSECOND


def _wall_clock(name: str, path: str, value: Value) -> Value:
    if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
        _refuse(name, path, f"{_SHORT.repr(value)} is no datetime without a time zone")
    return value


def _dict(
    getters: Getters, names: list[str], inner: list[OfOne], value: Value
) -> dict[str, Value]:
    found = getters[type(value)](value)
    return dict(zip(names, map(_apply, inner, found), strict=True))


def _pairs(key: OfOne, item: OfOne, value: Value) -> list[tuple[Key, Value]]:
    return [(_apply(key, k), _apply(item, v)) for k, v in value.items()]


def _list(name: str, path: str, inner: OfOne, value: Value) -> list[Value]:
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
