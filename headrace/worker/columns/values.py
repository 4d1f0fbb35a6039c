"""The values of a batch as columns: one for each leaf of their shape.

Takes Arrow arrays or objects, gives parts of itself, and the very Python objects when somebody asks
for them: they are made once, and only then. Never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, repeat

import pyarrow as pa

from headrace.plan.shapes import (
    DictShape,
    FixedList,
    RecordShape,
    ScalarShape,
    Shape,
    TupleShape,
    offset,
    width,
)
from headrace.worker.beam_types import Value
from headrace.worker.columns.column import (
    Column,
    Mask,
    Positions,
    Reader,
    column_of_arrow,
    column_of_objects,
    concatenated,
)
from headrace.worker.columns.lazy import LazyColumn
from headrace.worker.columns.records import fields_of, has_keys, maker


class ColumnValues:
    """The values of a batch.

    Args:
        shape: of every value.
        leaves: a column for each leaf of the shape, all of one length.
        size: how many values there are; needed where the shape has no leaves.
        objects: the values as objects, if they are known already.
    """

    __slots__ = ("_objects", "leaves", "shape", "size")

    def __init__(
        self,
        shape: Shape,
        leaves: Sequence[Column],
        size: int | None = None,
        objects: list[Value] | None = None,
    ) -> None:
        self.shape = shape
        self.leaves = tuple(leaves)
        self.size = len(self.leaves[0]) if size is None else size
        self._objects = objects
        assert len(self.leaves) == width(shape)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Value]:
        return iter(self.objects())

    def objects(self) -> list[Value]:
        """The values as Python objects, made when this is asked for the first time."""
        if self._objects is None:
            self._objects = list(_made(self.shape, iter(self.leaves), self.size))
        return self._objects

    @property
    def is_whole(self) -> bool:
        """Whether all columns are there; else a source would have to read some."""
        return all(not isinstance(leaf, LazyColumn) or leaf.is_made for leaf in self.leaves)

    def part(self, place: int) -> ColumnValues:
        """The values of one item of a tuple or field of a record."""
        assert not isinstance(self.shape, ScalarShape)
        inner = self.shape.items[place]
        start = offset(self.shape, place)
        return ColumnValues(inner, self.leaves[start : start + width(inner)], self.size)

    def take(self, positions: Positions) -> ColumnValues:
        """The values at these positions."""
        kept = None
        if self._objects is not None:
            kept = [self._objects[p] for p in positions.tolist()]
        leaves = [leaf.take(positions) for leaf in self.leaves]
        return ColumnValues(self.shape, leaves, len(positions), kept)

    def filter(self, mask: Mask) -> ColumnValues:
        """The values where the mask is true."""
        kept = None if self._objects is None else list(compress(self._objects, mask.tolist()))
        leaves = [leaf.filter(mask) for leaf in self.leaves]
        return ColumnValues(self.shape, leaves, int(mask.sum()), kept)

    def slice(self, start: int, stop: int) -> ColumnValues:
        """The values from one position to before another."""
        kept = None if self._objects is None else self._objects[start:stop]
        start, stop, _ = slice(start, stop).indices(self.size)
        leaves = [leaf.slice(start, stop) for leaf in self.leaves]
        return ColumnValues(self.shape, leaves, max(stop - start, 0), kept)

    def put(self, positions: Positions, objects: Sequence[Value]) -> ColumnValues | None:
        """The same, with these objects at these positions, which are in order.

        None: one of the objects is not of the shape, so that the batch has to become objects.
        """
        given = of_objects(objects, self.shape)
        if given is None:
            return None
        pairs = zip(self.leaves, given.leaves, strict=True)
        return ColumnValues(self.shape, [a.put(positions, b) for a, b in pairs], self.size)


def of_objects(objects: Sequence[Value], shape: Shape) -> ColumnValues | None:
    """The columns of these objects; None if one of them is not just what the shape says.

    "Just" is by the exact type of every value: a subclass of `int` or a NumPy number has methods of
    its own, and a bool is no int here.
    """
    leaves: list[Column] = []
    if not _collect(objects, shape, leaves):
        return None
    kept = objects if isinstance(objects, list) else list(objects)
    return ColumnValues(shape, leaves, len(objects), kept)


def of_arrow(
    arrays: Sequence[pa.Array], shape: Shape, size: int, readers: Sequence[Reader | None] = ()
) -> ColumnValues | None:
    """The columns that a source has brought, one array for each item of the shape.

    Args:
        arrays: of Arrow; an item that is a record itself is a struct array.
        shape: of a row.
        size: how many rows there are.
        readers: for items of which nothing is known, what makes objects of their array.

    None: an array is of another type than the shape says, or has nulls where it says none.
    """
    leaves: list[Column] = []
    items = (shape,) if isinstance(shape, ScalarShape) else shape.items
    given = readers or repeat(None, len(items))
    for array, item, read in zip(arrays, items, given, strict=True):
        if not _collect_arrow(array, item, leaves, read):
            return None
    return ColumnValues(shape, leaves, size)


def of_source(
    load: Callable[[int], pa.Array], shape: Shape, size: int, readers: Sequence[Reader | None]
) -> ColumnValues | None:
    """The columns of a source that reads each of them when it is asked for.

    Args:
        load: gives the Arrow array of an item.
        shape: of a row.
        size: how many rows there are.
        readers: for items of which nothing is known, what makes objects of their array.

    None: it takes the values to say whether they are what the shape says.
    """
    if isinstance(shape, ScalarShape) or not all(
        isinstance(item, ScalarShape) and item.nullable for item in shape.items
    ):
        return None
    leaves = [
        LazyColumn(item.kind, size, partial(_loaded, load, place, item, read))
        for place, (item, read) in enumerate(zip(shape.items, readers, strict=True))
        if isinstance(item, ScalarShape)
    ]
    return ColumnValues(shape, leaves, size)


def _loaded(
    load: Callable[[int], pa.Array], place: int, shape: ScalarShape, read: Reader | None
) -> Column:
    array = load(place)
    made = column_of_arrow(array, shape, read)
    if made is None:
        array.to_pylist()  # raises if it is text that Python cannot read, as for any other row
        msg = f"column {place}: {array.type} where {shape} was promised"
        raise TypeError(msg)
    return made


def concatenate(batches: Sequence[ColumnValues]) -> ColumnValues:
    """The values of batches of one shape, one after the other."""
    first = batches[0]
    leaves = [concatenated(columns) for columns in zip(*(b.leaves for b in batches), strict=True)]
    return ColumnValues(first.shape, leaves, sum(map(len, batches)))


def _made(shape: Shape, leaves: Iterator[Column], size: int) -> Iterable[Value]:
    match shape:
        case ScalarShape():
            return next(leaves).objects()
        case TupleShape(items=items):
            parts = [_made(item, leaves, size) for item in items]
            return zip(*parts, strict=True) if parts else repeat((), size)
        case RecordShape(items=items):
            parts = [_made(item, leaves, size) for item in items]
            return maker(shape)(zip(*parts, strict=True) if parts else repeat((), size))
        case FixedList(items=items):
            parts = [_made(item, leaves, size) for item in items]
            return map(list, zip(*parts, strict=True)) if parts else [[] for _ in range(size)]
        case DictShape(names=names, items=items):
            parts = [_made(item, leaves, size) for item in items]
            rows = zip(*parts, strict=True) if parts else repeat((), size)
            return (dict(zip(names, row, strict=True)) for row in rows)


def _collect(objects: Sequence[Value], shape: Shape, leaves: list[Column]) -> bool:
    match shape:
        case ScalarShape():
            made = column_of_objects(objects, shape)
            if made is None:
                return False
            leaves.append(made)
            return True
        case TupleShape(items=items) | FixedList(items=items):
            plain = set(map(type, objects)) <= {tuple if type(shape) is TupleShape else list}
            if not plain or not set(map(len, objects)) <= {len(items)}:
                return False
            parts = list(zip(*objects, strict=True)) if objects else [() for _ in items]
            return all(map(_collect, parts, items, repeat(leaves)))
        case RecordShape(items=items):
            found = fields_of(objects, shape)
            return found is not None and all(map(_collect, found, items, repeat(leaves)))
        case DictShape(names=names, items=items):
            if not all(type(o) is dict and has_keys(o, names) for o in objects):
                return False
            held = [[o[name] for o in objects] for name in names]
            return all(map(_collect, held, items, repeat(leaves)))


def _collect_arrow(
    array: pa.Array, shape: Shape, leaves: list[Column], read: Reader | None
) -> bool:
    if isinstance(shape, ScalarShape):
        made = column_of_arrow(array, shape, read)
        if made is None:
            return False
        leaves.append(made)
        return True
    if array.null_count or not hasattr(array, "flatten"):
        return False
    inside = array.flatten()
    if len(inside) != len(shape.items):
        return False
    return all(map(_collect_arrow, inside, shape.items, repeat(leaves), repeat(None)))

