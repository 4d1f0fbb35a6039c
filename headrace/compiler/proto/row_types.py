"""Finds the user's classes behind the rows of a pipeline, so that workers make rows of them again.

A coder of rows names its class by an id that Beam draws in the driver's process; where the id is
not known, Beam makes a class of its own, without the user's methods. Takes a pipeline's proto,
gives ids with pickled classes. Loads nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.row_type import _user_type_is_generated
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

_LOG = logging.getLogger(__name__)


def row_types(pipeline: beam_pb.Pipeline) -> tuple[tuple[str, bytes], ...]:
    """Give the id and the pickled class of every row type of the user's that a coder speaks of."""
    found: dict[str, bytes] = {}
    for coder in pipeline.components.coders.values():
        if coder.spec.urn != common_urns.coders.ROW.urn:
            continue
        for schema in schemas_within(schema_pb2.Schema.FromString(coder.spec.payload)):
            user_type = SCHEMA_REGISTRY.get_typing_by_id(schema.id)
            if schema.id in found or user_type is None or _user_type_is_generated(user_type):
                continue
            try:
                found[schema.id] = pickler.dumps(user_type)
            except Exception as reason:  # noqa: BLE001 (a user's class may hold anything)
                _LOG.warning(
                    "%s cannot be pickled, so behind an exchange its rows are of a class that Beam "
                    "makes, with the same fields: %s", user_type.__qualname__, reason,
                )  # fmt: skip
    return tuple(sorted(found.items()))


def schemas_within(schema: Any) -> Iterator[Any]:
    """Give a schema and those of all rows inside of it."""
    yield schema
    todo = [field.type for field in schema.fields]
    while todo:
        kind = todo.pop()
        match kind.WhichOneof("type_info"):
            case "row_type":
                yield kind.row_type.schema
                todo += [field.type for field in kind.row_type.schema.fields]
            case "array_type" | "iterable_type" as name:
                todo.append(getattr(kind, name).element_type)
            case "map_type":
                todo += [kind.map_type.key_type, kind.map_type.value_type]
            case "logical_type":
                todo.append(kind.logical_type.representation)
