"""Pairs that cross an exchange as columns: how they are dealt out to shards, and their bytes.

A payload is a head and one Arrow record batch without its schema. The head says what keys and
values are, and in which windows rows may stand; a column of places says in which of them each does.
Takes pairs, gives payloads, and gives pairs back. Knows no CombineFn and no table.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa

from headrace.errors import TransportError
from headrace.plan.shapes import (
    ClassFound,
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    ScalarShape,
    Shape,
    TupleShape,
    leaves_of,
)
from headrace.worker.batched.column_batches import RowNumbers, Started
from headrace.worker.batched.column_combining import Pairs, joined
from headrace.worker.batched.near_numbers import by_number
from headrace.worker.beam_types import Windows
from headrace.worker.columns.column import ARROW, Column
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.keys import ShardOf

#: A window by its first microsecond and its end.
Span = tuple[int, int]

_LENGTH_BYTES = 4
_KINDS = {kind.value: kind for kind in ScalarKind}


class Keyed(NamedTuple):
    """Pairs as they arrive."""

    pairs: ColumnValues  # of key and value
    windows: list[list[Span]]  # sets of windows; none where there is but the global one
    places: RowNumbers | None  # for each pair, which set it stands in; None: all in the first


class HeldColumns:
    """Pairs that wait to be sent."""

    def __init__(self, shard_of: ShardOf, shards: int, fixed_shard: int | None) -> None:
        self._shard_of = shard_of
        self._shards = shards
        self._fixed = fixed_shard
        self._held: list[Pairs] = []
        self.rows = 0

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def of_records(self) -> bool:
        """Whether keys are records: no table of objects has them as they are."""
        return bool(self._held) and isinstance(self._held[0].keys.shape, RecordShape)

    def goes_with(self, pairs: Pairs) -> bool:
        """Whether these can be sent together with those that wait."""
        return not self._held or pairs.goes_with(self._held[0])

    def add(self, pairs: Pairs) -> None:
        """Take pairs that go with those that wait."""
        self._held.append(pairs)
        self.rows += len(pairs.values)

    def take(self) -> Pairs:
        """Give all pairs that wait, in their order, and forget them."""
        held, self._held, self.rows = self._held, [], 0
        return joined(held)

    def parcels(self, by_window: bool) -> Iterator[tuple[int, int, bytes]]:
        """Give for each shard that gets some: its number, how many, and their payload."""
        pairs = self.take()
        keys, values = pairs.keys, pairs.values
        windows: Started | Windows | None = pairs.windows if by_window else None
        if self._fixed is not None or self._shards == 1:
            yield self._fixed or 0, len(values), _payload(keys, values, windows)
            return
        shards = self._shard_of.of_columns(keys)
        order = by_number(shards, self._shards)  # in their order
        keys, values = keys.take(order), values.take(order)
        if type(windows) is Started:
            windows = Started(windows.starts[order], windows.known)
        ends = np.cumsum(np.bincount(shards, minlength=self._shards)).tolist()
        for shard, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                its = windows
                if type(windows) is Started:
                    its = Started(windows.starts[start:end], windows.known)
                part = _payload(keys.slice(start, end), values.slice(start, end), its)
                yield shard, end - start, part


def _payload(
    keys: ColumnValues, values: ColumnValues, windows: Started | Windows | None
) -> bytes:
    """Write pairs; windows are `Started`, those that all share, or None where there is only one."""
    key = keys.shape
    columns = [*keys.leaves, *values.leaves]
    arrays = [_small(column) for column in columns]
    spans: list[list[Span]] = []
    if type(windows) is Started:
        starts, places = np.unique(windows.starts, return_inverse=True)
        spans = [_spans(windows.known[start]) for start in starts.tolist()]
        if len(spans) > 1:
            arrays.append(pa.array(places.astype(np.int32)))
    elif windows is not None:
        spans = [_spans(windows)]
    head = marshal.dumps((_code(key), _code(values.shape), spans), 2)
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(key, values.shape, len(spans)))
    body: bytes = batch.serialize().to_pybytes()
    return len(head).to_bytes(_LENGTH_BYTES, "big") + head + body


def read_keyed(payload: bytes) -> Keyed:
    """Read pairs.

    Raises:
        TransportError: these are no such pairs.
    """
    body = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "big")
    try:
        key_code, value_code, spans = marshal.loads(payload[_LENGTH_BYTES:body])
        key, value = _shape(key_code), _shape(value_code)
        batch = pa.ipc.read_record_batch(
            pa.py_buffer(payload)[body:], _schema(key, value, len(spans))
        )
    except (ValueError, TypeError, EOFError, KeyError, pa.ArrowException) as error:
        msg = f"{len(payload)} bytes of keyed columns cannot be read: {error}"
        raise TransportError(msg) from error
    shape = TupleShape((key, value))
    leaves = list(map(_column, batch.columns, leaves_of(shape)))
    places = batch.column(len(leaves)).to_numpy().astype(np.int64) if len(spans) > 1 else None
    windows = [[(start, end) for start, end in each] for each in spans]
    return Keyed(ColumnValues(shape, leaves, batch.num_rows), windows, places)


def _spans(windows: Windows) -> list[Span]:
    return [
        (w._start_micros, w._end_micros)  # type: ignore[attr-defined]  # noqa: SLF001 (intervals)
        for w in windows
    ]


def _small(column: Column) -> pa.Array:
    """Give a column in the one Arrow type that its kind has on the way."""
    array, kind = column.arrow(), ARROW[column.kind]
    return array if array.type == kind else array.cast(kind)


def _schema(key: Shape, value: Shape, sets: int) -> pa.Schema:
    kinds = [ARROW[leaf.kind] for leaf in leaves_of(TupleShape((key, value)))]
    if sets > 1:
        kinds.append(pa.int32())
    return pa.schema([(str(number), kind) for number, kind in enumerate(kinds)])


def _column(array: pa.Array, shape: ScalarShape) -> Column:
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if shape.kind in (ScalarKind.TEXT, ScalarKind.BYTES):
        return Column(shape.kind, array, missing)
    if missing is not None:
        array = array.fill_null(False if shape.kind is ScalarKind.BOOL else 0)
    return Column(shape.kind, array.to_numpy(zero_copy_only=False), missing)


def _code(shape: Shape) -> Any:
    """Give a shape in words that `marshal` can write."""
    match shape:
        case ScalarShape(kind=kind, nullable=nullable):
            return kind.value, nullable
        case TupleShape(items=items):
            return list(map(_code, items))
        case FixedList(items=items):
            return {"list": list(map(_code, items))}
        case DictShape(names=names, items=items):
            return {"dict": names, "items": list(map(_code, items))}
        case RecordShape(items=items):
            return {
                "record": (shape.name, shape.names, shape.found.value, shape.payload),
                "is_tuple": shape.is_tuple,
                "items": list(map(_code, items)),
            }
        case _:
            assert_never(shape)


def _shape(code: Any) -> Shape:
    if isinstance(code, dict) and "list" in code:
        return FixedList(tuple(map(_shape, code["list"])))
    if isinstance(code, dict) and "dict" in code:
        return DictShape(code["dict"], tuple(map(_shape, code["items"])))
    if isinstance(code, dict):
        name, names, found, payload = code["record"]
        items = tuple(map(_shape, code["items"]))
        return RecordShape(name, names, items, ClassFound(found), payload, code["is_tuple"])
    if isinstance(code, list):
        return TupleShape(tuple(map(_shape, code)))
    kind, nullable = code
    return ScalarShape(_KINDS[kind], nullable)
