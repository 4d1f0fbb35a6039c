"""The shape of rows that have a Beam schema, the same for compiler and worker.

Takes a schema, gives the shape of the rows that Beam's own coder of rows makes of it. Looks at the
schema's fields by name, as generated classes have no types; knows nothing else of Beam.
"""

from __future__ import annotations

from typing import Any

from headrace.plan.shapes import (
    OTHER,
    ClassFound,
    RecordShape,
    ScalarKind,
    ScalarShape,
    Shape,
)

#: Numbers of Beam's atomic types. The narrow ones are NumPy's numbers in Python, and so no ints.
_ATOMIC = {
    4: ScalarKind.INT,  # INT64
    6: ScalarKind.FLOAT,  # DOUBLE
    7: ScalarKind.TEXT,
    8: ScalarKind.BOOL,
    9: ScalarKind.BYTES,
}
_MICROS_INSTANT = "beam:logical_type:micros_instant:v1"


def shape_of_schema(schema: Any, name: str = "Row") -> RecordShape:
    """The shape of the rows of a DataFrame, whose class Beam's coder makes of the schema.

    A field that may be a row or None, and one of any other type, is an object of which nothing is
    known.
    """
    return RecordShape(
        name=name,
        names=tuple(field.name for field in schema.fields),
        items=tuple(_field(field.type) for field in schema.fields),
        found=ClassFound.BY_SCHEMA,
        payload=bytes(schema.SerializeToString(deterministic=True)),
        is_tuple=True,
    )


def _field(kind: Any) -> Shape:
    match kind.WhichOneof("type_info"):
        case "atomic_type" if kind.atomic_type in _ATOMIC:
            return ScalarShape(_ATOMIC[kind.atomic_type], kind.nullable)
        case "logical_type" if kind.logical_type.urn == _MICROS_INSTANT:
            return ScalarShape(ScalarKind.TIMESTAMP, kind.nullable)
        case "row_type" if not kind.nullable:
            return shape_of_schema(kind.row_type.schema)
        case _:
            return OTHER
