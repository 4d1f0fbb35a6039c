"""Says which keys may cross an exchange as columns, and as what their coder gives them back.

Takes the coder of keys, and keys as columns; gives the keys that whoever follows the exchange has
to see. A record comes back as an object of the class that its coder knows, which may be another
than it was made with. Knows no values and no windows.
"""

from __future__ import annotations

from dataclasses import replace

from apache_beam import coders

from headrace.plan.schema_shapes import shape_of_schema
from headrace.plan.shapes import RecordShape, ScalarKind, ScalarShape, Shape, TupleShape
from headrace.worker.batched.plain_values import FAITHFUL, scalar_types, tuple_check, unwrap
from headrace.worker.beam_types import Coder, Key, Proto
from headrace.worker.columns.records import class_of
from headrace.worker.columns.values import ColumnValues, of_objects

_TYPES: dict[ScalarKind, type] = {
    ScalarKind.INT: int, ScalarKind.TEXT: str, ScalarKind.BYTES: bytes,
}
#: Beam's atomic types of which a faithful value comes back as it went: INT64, STRING, BYTES.
_ATOMIC = frozenset({4, 7, 9})
#: A field of any type: its coder is the one that a key of any type has.
_ANY_FIELD = "beam:logical:pythonsdk_any:v1"


class KeyColumns:
    """The keys of one grouping that may be columns on their way.

    Args:
        coder: of the keys.
    """

    def __init__(self, coder: Coder) -> None:
        self._types = scalar_types(coder) & FAITHFUL
        self._tuple = tuple_check(coder, FAITHFUL)
        inner = unwrap(coder)
        self._impl = coder.get_impl()
        #: Of records; the bytes that a coder of any type writes for two equal ones may differ.
        self._schema: Proto = None
        if type(inner) is coders.RowCoder and all(map(_keeps, inner.schema.fields)):
            self._schema = inner.schema
        self._back: dict[Shape, Shape | None] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._types or self._tuple or self._schema)

    def given_back(self, keys: ColumnValues) -> ColumnValues | None:
        """Give keys as they are behind the exchange; None: they have to go there as objects."""
        shape = keys.shape
        match shape:
            case ScalarShape(kind=kind):
                return keys if _TYPES.get(kind) in self._types else None
            case TupleShape(items=items):
                if self._tuple is None or not all(map(_is_faithful, items)):
                    return None
                return keys if self._tuple(keys.slice(0, 1).objects()[0]) else None
            case RecordShape(items=items):
                if self._schema is None or not all(map(_is_faithful, items)):
                    return None
                if shape not in self._back:
                    self._back[shape] = self._record(keys, shape)
                back = self._back[shape]
                return None if back is None else ColumnValues(back, keys.leaves, len(keys))
            case _:
                return None

    def _record(self, keys: ColumnValues, shape: RecordShape) -> Shape | None:
        """Find what comes back for records; all are of the types of the first."""
        (key,) = keys.slice(0, 1).objects()
        back = self._impl.decode(self._impl.encode(key))
        generated = shape_of_schema(self._schema)
        if generated.names != shape.names:
            return None
        # A field of any type has one by now; the class is the one of the schema all the same.
        for each in (shape, replace(generated, items=shape.items)):
            if class_of(each) is type(back) and _has(back, each, keys):
                return each
        return None


def _is_faithful(shape: Shape) -> bool:
    return isinstance(shape, ScalarShape) and shape.kind in _TYPES


def _keeps(field: Proto) -> bool:
    """Whether a field of a schema brings faithful values back as they went."""
    match field.type.WhichOneof("type_info"):
        case "atomic_type":
            return field.type.atomic_type in _ATOMIC
        case "logical_type":
            return bool(field.type.logical_type.urn == _ANY_FIELD)
        case _:
            return False


def _has(back: Key, shape: RecordShape, keys: ColumnValues) -> bool:
    """Whether an object has the values, and their types, of the first of some keys."""
    made = of_objects([back], shape)
    if made is None:
        return False
    pairs = zip(made.leaves, keys.leaves, strict=True)
    return all(a.objects() == b.slice(0, 1).objects() for a, b in pairs)
