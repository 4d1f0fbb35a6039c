"""Gives ours in place of Beam's `SqlTransform`, whose code is Java's.

Loads DuckDB, and what reads queries, only where a pipeline has one; both come with the extra `sql`.
"""

from __future__ import annotations

import importlib
from typing import Any

from apache_beam.coders import RowCoder
from apache_beam.portability.api import external_transforms_pb2
from apache_beam.transforms.sql import SqlTransform

from headrace.errors import UnsupportedTransformError


def in_place_of(transform: Any) -> Any | None:
    """Give the transform that runs here; None if there is no need of one.

    Raises:
        UnsupportedTransformError: the extra is not installed, or the query asks for too much.
    """
    if not isinstance(transform, SqlTransform):
        return None
    payload = external_transforms_pb2.ExternalConfigurationPayload.FromString(
        transform._payload  # noqa: SLF001 (Beam has no other door)
    )
    row = RowCoder(payload.schema).decode(payload.payload)
    try:
        # By name, as the lab opens its doors: who runs pipelines does not depend on DuckDB.
        steps = importlib.import_module(f"{__package__}.transform")
    except ModuleNotFoundError as e:
        if e.name not in ("duckdb", "sqlglot"):
            raise
        msg = (
            f"{transform.label}: SqlTransform runs on headrace by DuckDB and sqlglot, and {e.name} "
            "is not installed: pip install 'headrace[sql]'"
        )
        raise UnsupportedTransformError(msg) from e
    return steps.Sql(
        row.query, dialect=row.dialect or "", ddl=row.ddl or "", label=transform.label
    )
