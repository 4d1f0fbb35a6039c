"""Makes classes of rows from fields that are known only at run time.

Takes names and Python types, gives a named tuple that Beam's RowCoder encodes and that any process
can make again from its schema. Knows neither DataFrames nor queries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from apache_beam import coders
from apache_beam.typehints import row_type, schemas
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY


def made_class(fields: Sequence[tuple[str, Any]], schema_id: str = "") -> type:
    """Give the class of rows with these fields; the same fields always give the same class.

    Args:
        fields: names and types.
        schema_id: what names the schema; a digest of the fields if it is empty.
    """
    schema_id = schema_id or f"headrace-{_digest(fields)}"
    known = SCHEMA_REGISTRY.get_typing_by_id(schema_id)
    if known is not None:
        return known  # type: ignore[no-any-return]
    schema = schemas.named_fields_to_schema(fields)
    schema.id = schema_id
    # Beam takes a class of this name for one that it made itself, and so can make it again from
    # its schema in any other process.
    name = f"BeamSchema_{schema_id.replace('-', '_')}"
    made: Any = NamedTuple(name, list(fields))  # type: ignore[misc]
    setattr(made, row_type._BEAM_SCHEMA_ID, schema_id)  # noqa: SLF001 (no public name)
    reduce = schemas._named_tuple_reduce_method(schema.SerializeToString())  # noqa: SLF001
    setattr(made, "__reduce__", reduce)  # noqa: B010 (a type checker bars the plain form)
    SCHEMA_REGISTRY.add(made, schema)
    coders.registry.register_coder(made, coders.RowCoder)
    return made


def _digest(fields: Sequence[tuple[str, Any]]) -> str:
    said = [f"{name}: {kind!r}" for name, kind in fields]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:24]
