"""One leaf of a batch: its values as an array, and which of them are missing.

Numbers are NumPy arrays, text and bytes Arrow arrays, what has no kind of its own either an array
of objects or what an Arrow source has brought. Gives back Python's own objects, of the exact type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.timestamp import Timestamp

from headrace.plan.shapes import ScalarKind, ScalarShape
from headrace.worker.beam_types import Value

Mask: TypeAlias = npt.NDArray[np.bool_]
Positions: TypeAlias = npt.NDArray[np.int64]
#: A NumPy array, or one of Arrow's, which have no types.
Data: TypeAlias = Any
Reader: TypeAlias = Callable[[pa.Array], Iterable[Value]]

DTYPES: dict[ScalarKind, type[np.generic]] = {
    ScalarKind.BOOL: np.bool_,
    ScalarKind.INT: np.int64,
    ScalarKind.FLOAT: np.float64,
    ScalarKind.TIMESTAMP: np.int64,
    ScalarKind.NONE: np.bool_,
    ScalarKind.OTHER: np.object_,
}
ARROW: dict[ScalarKind, pa.DataType] = {
    ScalarKind.BOOL: pa.bool_(),
    ScalarKind.INT: pa.int64(),
    ScalarKind.FLOAT: pa.float64(),
    ScalarKind.TEXT: pa.string(),
    ScalarKind.BYTES: pa.binary(),
    ScalarKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ScalarKind.NONE: pa.null(),
}
_TYPES: dict[ScalarKind, type] = {
    ScalarKind.BOOL: bool,
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.TEXT: str,
    ScalarKind.BYTES: bytes,
    ScalarKind.TIMESTAMP: Timestamp,
}
_NO_TYPE = type(None)


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one leaf."""

    kind: ScalarKind
    data: Data  # where a value is missing: anything, and null in an Arrow array
    missing: Mask | None = None  # None: every value is there
    read: Reader | None = None  # of a kind OTHER that is an Arrow array: makes its objects

    def __len__(self) -> int:
        return len(self.data)

    def objects(self) -> list[Value]:
        """The values as Python has them."""
        match self.kind:
            case ScalarKind.NONE:
                return [None] * len(self)
            case ScalarKind.TEXT | ScalarKind.BYTES:
                found: list[Value] = self.data.to_pylist()
                return found
            case ScalarKind.OTHER:
                if isinstance(self.data, np.ndarray):
                    return list(self.data.tolist())
                return list(self.data.to_pylist() if self.read is None else self.read(self.data))
            case _:
                values = self.data.tolist()
                if self.kind is ScalarKind.TIMESTAMP:
                    values = [Timestamp(micros=m) for m in values]
                if self.missing is None:
                    return list(values)
                gone = self.missing.tolist()
                return [None if g else v for v, g in zip(values, gone, strict=True)]

    def take(self, positions: Positions) -> Column:
        """The values at these positions."""
        data = self.data[positions] if _is_numpy(self.data) else self.data.take(_arrow(positions))
        return self._like(data, None if self.missing is None else self.missing[positions])

    def filter(self, mask: Mask) -> Column:
        """The values where the mask is true."""
        data = self.data[mask] if _is_numpy(self.data) else self.data.filter(_arrow(mask))
        return self._like(data, None if self.missing is None else self.missing[mask])

    def slice(self, start: int, stop: int) -> Column:
        """The values from one position to before another."""
        missing = None if self.missing is None else self.missing[start:stop]
        return self._like(self.data[start:stop], missing)

    def put(self, positions: Positions, other: Column) -> Column:
        """The same, with the values of another column at these positions, which are in order."""
        missing = self.missing
        if missing is not None or other.missing is not None:
            missing = np.zeros(len(self), np.bool_) if missing is None else missing.copy()
            missing[positions] = False if other.missing is None else other.missing
        if _is_numpy(self.data):
            data = self.data.copy()
            data[positions] = other.data
            return self._like(data, missing)
        mask = np.zeros(len(self), np.bool_)
        mask[positions] = True
        given = other.data if other.data.type == self.data.type else other.data.cast(self.data.type)
        return self._like(pc.replace_with_mask(self.data, _arrow(mask), given), missing)

    def arrow(self) -> Data:
        """The values as an Arrow array; of the kind OTHER only where a source has brought it.

        Raises:
            TypeError: there is no Arrow type for these objects.
        """
        if not _is_numpy(self.data):
            return self.data
        if self.kind is ScalarKind.NONE:
            return pa.nulls(len(self))
        if self.kind is ScalarKind.OTHER:
            msg = "objects of which nothing is known are no Arrow column"
            raise TypeError(msg)
        return pa.array(self.data, ARROW[self.kind], mask=self.missing)

    def _like(self, data: Data, missing: Mask | None) -> Column:
        if missing is not None and self.kind is not ScalarKind.NONE and not missing.any():
            missing = None
        return Column(self.kind, data, missing, self.read)


def concatenated(columns: Sequence[Column]) -> Column:
    """The values of columns of one kind, one after the other."""
    first = columns[0]
    if all(c.missing is None for c in columns):
        missing = None
    else:
        gone = [np.zeros(len(c), np.bool_) if c.missing is None else c.missing for c in columns]
        missing = np.concatenate(gone)
    if all(_is_numpy(c.data) for c in columns):
        return Column(first.kind, np.concatenate([c.data for c in columns]), missing)
    if first.kind is ScalarKind.OTHER:  # objects beside arrays, or arrays of several sources
        return Column(first.kind, _held([o for c in columns for o in c.objects()]), missing)
    kinds = {c.data.type for c in columns}
    arrays = [c.data if len(kinds) == 1 else c.data.cast(ARROW[c.kind]) for c in columns]
    return Column(first.kind, pa.concat_arrays(arrays), missing)


def column_of_objects(values: Sequence[Value], shape: ScalarShape) -> Column | None:
    """The column of these values; None if one of them is not just what the shape says."""
    found = set(map(type, values))
    missing: Mask | None = None
    if shape.kind is ScalarKind.NONE:
        there = np.zeros(len(values), np.bool_)
        return Column(shape.kind, there, ~there) if found <= {_NO_TYPE} else None
    if shape.kind is ScalarKind.OTHER:
        return Column(shape.kind, _held(values))
    if _NO_TYPE in found and shape.nullable:
        found.discard(_NO_TYPE)
        missing = np.fromiter((v is None for v in values), np.bool_, len(values))
    if not found <= {_TYPES[shape.kind]}:
        return None
    try:
        return Column(shape.kind, _array(values, shape.kind, missing), missing)
    except (OverflowError, UnicodeEncodeError, pa.ArrowException):
        return None  # an int of more than 64 bits, a lone surrogate, or more text than fits


def column_of_arrow(array: Data, shape: ScalarShape, read: Reader | None = None) -> Column | None:
    """The column of an Arrow array; None if it is not just what the shape says."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if shape.kind is ScalarKind.OTHER:
        return Column(shape.kind, array, None, read)
    missing: Mask | None = None
    if array.null_count or shape.kind is ScalarKind.NONE:
        if not shape.nullable:
            return None
        missing = array.is_null().to_numpy(zero_copy_only=False)
    kind = array.type
    match shape.kind:
        case ScalarKind.TEXT if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return Column(shape.kind, array, missing) if _is_utf8(array) else None
        case ScalarKind.BYTES if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return Column(shape.kind, array, missing)
        case ScalarKind.NONE if pa.types.is_null(kind):
            return Column(shape.kind, np.zeros(len(array), np.bool_), missing)
        case ScalarKind.INT if pa.types.is_integer(kind) and kind != pa.uint64():
            return Column(shape.kind, _numbers(array, pa.int64()), missing)
        case ScalarKind.FLOAT if pa.types.is_floating(kind):
            return Column(shape.kind, _numbers(array, pa.float64()), missing)
        case ScalarKind.BOOL if pa.types.is_boolean(kind):
            return Column(shape.kind, _numbers(array, kind), missing)
        case ScalarKind.TIMESTAMP if pa.types.is_timestamp(kind) and kind.unit == "us":
            return Column(shape.kind, _numbers(array.cast(pa.int64()), pa.int64()), missing)
        case _:
            return None


def _numbers(array: Data, kind: Data) -> Data:
    if array.type != kind:
        array = array.cast(kind)
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(kind) else 0)
    return array.to_numpy(zero_copy_only=False)


def _is_utf8(array: Data) -> bool:
    """Whether Python could read the text: Spark does not look what a cast has made of bytes."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _array(values: Sequence[Value], kind: ScalarKind, missing: Mask | None) -> Data:
    if kind in (ScalarKind.TEXT, ScalarKind.BYTES):
        return pa.array(values, ARROW[kind])
    if kind is ScalarKind.TIMESTAMP:
        values = [0 if v is None else v.micros for v in values]
    elif missing is not None:
        values = [0 if v is None else v for v in values]
    return np.array(values, DTYPES[kind])


def _held(values: Sequence[Value]) -> Data:
    """An array of the very objects; NumPy would take lists among them for dimensions."""
    return np.fromiter(values, np.object_, len(values))


def _is_numpy(data: Data) -> bool:
    return isinstance(data, np.ndarray)


def _arrow(array: Data) -> Data:
    return pa.array(array)

