"""Finds the shapes of elements: from type hints, Beam schemas and coders.

Takes what Beam or the user's annotations say of a collection, gives a shape, or none: then nothing
is promised and nothing is lowered. A class has a shape if its instances are their fields and
nothing else.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.internal import pickler
from apache_beam.typehints import row_type, typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import _user_type_is_generated
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY
from apache_beam.utils.timestamp import Timestamp

from headrace.compiler.code.values import is_plain_dataclass, tuple_fields
from headrace.plan.schema_shapes import shape_of_schema
from headrace.plan.shapes import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    OTHER,
    TEXT,
    TIMESTAMP,
    ClassFound,
    RecordShape,
    ScalarShape,
    Shape,
    TupleShape,
    nullable,
)

_SCALARS: dict[Any, Shape] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: TEXT,
    bytes: BYTES,
    Timestamp: TIMESTAMP,
    type(None): NONE,
}
_CODERS: dict[type, Shape] = {
    coders.VarIntCoder: INT,
    coders.FloatCoder: FLOAT,
    coders.StrUtf8Coder: TEXT,
    coders.BytesCoder: BYTES,
    coders.BooleanCoder: BOOL,
    coders.TimestampCoder: TIMESTAMP,
}


def shape_of_hint(hint: Any) -> Shape | None:
    """The shape that a type hint promises, Python's or Beam's; None: it promises none."""
    try:
        return _of(hint, 0)
    except Exception:  # noqa: BLE001 (a user's annotation may be anything)
        return None


def _of(hint: Any, depth: int) -> Shape | None:
    if depth > 8:
        return None
    if hint is None or (isinstance(hint, type) and hint in _SCALARS):
        return NONE if hint is None else _SCALARS[hint]
    if isinstance(hint, row_type.RowTypeConstraint):
        return _row(hint, depth)
    if isinstance(hint, typehints.TupleHint.TupleConstraint):
        return _tuple(hint.tuple_types, depth)
    if isinstance(hint, typehints.UnionConstraint):
        return _union(tuple(hint.union_types), depth)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and args and Ellipsis not in args:
        return _tuple(args, depth)
    if origin in (typing.Union, types.UnionType):
        return _union(args, depth)
    if isinstance(hint, type):
        return _class(hint, depth)
    converted = convert_to_beam_type(hint)
    return None if converted is hint else _of(converted, depth + 1)


def _tuple(items: Sequence[Any], depth: int) -> Shape | None:
    return TupleShape(tuple(_of(i, depth + 1) or OTHER for i in items))


def _union(members: Sequence[Any], depth: int) -> Shape | None:
    others = [m for m in members if m is not type(None)]
    if len(others) != 1 or len(members) != 2:
        return None
    inner = _of(others[0], depth + 1)
    return nullable(inner) if isinstance(inner, ScalarShape) else None


def _row(hint: Any, depth: int) -> Shape | None:
    if hint.user_type is not beam.Row:
        return _class(hint.user_type, depth)
    names = tuple(name for name, _ in hint._fields)
    items = tuple(_of(kind, depth + 1) or OTHER for _, kind in hint._fields)
    return dataclasses.replace(row_record(names), items=items)


def _class(cls: type, depth: int) -> Shape | None:
    schema_id = getattr(cls, row_type._BEAM_SCHEMA_ID, "")  # noqa: SLF001 (no public name)
    if schema_id and _user_type_is_generated(cls):
        schema = SCHEMA_REGISTRY.get_schema_by_id(schema_id)
        return None if schema is None else shape_of_schema(schema)
    names = tuple_fields(cls)
    if not names and is_plain_dataclass(cls):
        names = tuple(f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only)
        if len(names) != len(dataclasses.fields(cls)):
            return None
    record = record_of_class(cls, names)
    if record is None:
        return None
    hints = typing.get_type_hints(cls)
    items = tuple(_of(hints.get(n, Any), depth + 1) or OTHER for n in names)
    return dataclasses.replace(record, items=items)


def row_record(names: tuple[str, ...]) -> RecordShape:
    """A `beam.Row` with these names; of its fields nothing is known."""
    return RecordShape("Row", names, tuple(OTHER for _ in names), ClassFound.ROW)


def record_of_class(cls: type, names: tuple[str, ...]) -> RecordShape | None:
    """A record of a user's class with these fields; of them nothing is known."""
    if not names:
        return None
    schema_id = getattr(cls, row_type._BEAM_SCHEMA_ID, "")  # noqa: SLF001 (no public name)
    if schema_id and _user_type_is_generated(cls):
        schema = SCHEMA_REGISTRY.get_schema_by_id(schema_id)
        made = None if schema is None else shape_of_schema(schema)
        return made if made is None or made.names == names else None
    pickled = _pickled(cls)
    if pickled is None:
        return None
    known = tuple(OTHER for _ in names)
    found = ClassFound.PICKLED
    return RecordShape(cls.__name__, names, known, found, pickled, issubclass(cls, tuple))


def class_of_record(shape: RecordShape) -> type | None:
    """The class of a record, if it is a user's."""
    if shape.found is ClassFound.PICKLED:
        found = pickler.loads(shape.payload)
        return found if isinstance(found, type) else None
    return beam.Row if shape.found is ClassFound.ROW else None


@lru_cache(maxsize=1024)
def _pickled(cls: type) -> bytes | None:
    """A class as bytes, the same for the same class."""
    try:
        made = pickler.dumps(cls)
        back = pickler.loads(made)
    except Exception:  # noqa: BLE001 (a user's class may hold anything)
        return None
    return bytes(made) if back is cls else None


def shape_of_coder(coder: Any) -> Shape | None:
    """The shape of what a coder can write; None: it says nothing of that."""
    while isinstance(coder, coders.coders.LengthPrefixCoder):
        coder = coder.value_coder()
    if type(coder) in _CODERS:
        return _CODERS[type(coder)]
    if isinstance(coder, coders.NullableCoder):
        inner = shape_of_coder(coder._value_coder)  # noqa: SLF001 (no public name)
        return nullable(inner) if isinstance(inner, ScalarShape) else None
    if isinstance(coder, coders.TupleCoder):
        return TupleShape(tuple(shape_of_coder(c) or OTHER for c in coder.coders()))
    if isinstance(coder, coders.RowCoder):
        return shape_of_hint(coder.to_type_hint())
    return None
