"""Makes records of their fields, and takes their fields out of records.

Takes a record's shape, finds its class as the shape says, once for each shape. Never calls a method
that a user has written: the compiler gives shapes only to classes whose instances are their fields.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from operator import attrgetter

from apache_beam import Row
from apache_beam.internal import pickler
from apache_beam.portability.api import schema_pb2
from apache_beam.transforms import core
from apache_beam.typehints import schemas

from headrace.plan.shapes import ClassFound, RecordShape
from headrace.worker.beam_types import Key, Value


@functools.lru_cache(maxsize=1024)
def class_of(shape: RecordShape) -> type:
    """The class of a record."""
    match shape.found:
        case ClassFound.ROW:
            return Row  # type: ignore[no-any-return]
        case ClassFound.DYNAMIC:
            made = core._dynamic_named_tuple(shape.name, shape.names)  # noqa: SLF001 (no other door)
            return made  # type: ignore[no-any-return]
        case ClassFound.BY_SCHEMA:
            schema = schema_pb2.Schema.FromString(shape.payload)
            return schemas.named_tuple_from_schema(schema)  # type: ignore[no-any-return]
        case ClassFound.PICKLED:
            return pickler.loads(shape.payload)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=1024)
def maker(shape: RecordShape) -> Callable[[Iterable[tuple[Value, ...]]], Iterator[Value]]:
    """What makes records of tuples of their fields."""
    cls = class_of(shape)
    if cls is Row:
        names = shape.names
        return lambda rows: (Row(**dict(zip(names, row, strict=True))) for row in rows)
    if issubclass(cls, tuple):
        # A named tuple's own constructor is three times slower.
        return functools.partial(map, functools.partial(tuple.__new__, cls))
    return functools.partial(starmap, cls)


def fields_of(records: Sequence[Value], shape: RecordShape) -> list[Sequence[Value]] | None:
    """The values of each field; None if one of the records is not just what the shape says."""
    cls = class_of(shape)
    if not set(map(type, records)) <= {cls}:
        return None
    size = len(shape.names)
    if issubclass(cls, tuple):
        if not records:
            return [() for _ in shape.names]
        columns = list(zip(*records, strict=True)) if size else []
        return list(columns) if len(columns) == size else None
    if not all(_is_plain(r, shape.names, cls) for r in records):
        return None
    return [list(map(attrgetter(name), records)) for name in shape.names]


def _is_plain(record: Value, names: tuple[str, ...], cls: type) -> bool:
    """Whether a record has its fields and nothing beside them."""
    try:
        held = vars(record)
    except TypeError:  # slots: it can have no others
        return all(f.name in names for f in dataclasses.fields(cls))
    return tuple(held) == names


def has_keys(held: dict[Key, Value], names: tuple[str, ...]) -> bool:
    """Whether a dict has just these keys, in this order, and none that only equals one of them."""
    return tuple(held) == names and all(type(key) is str for key in held)
