"""Decides whether a transform may be expanded: one whose code is Java's is refused by its name.

Beam fetches a jar and starts a Java service to expand such a transform, while the pipeline is still
being built. On headrace it could not run afterwards, so the refusal comes before the jar.
"""

from __future__ import annotations

from typing import Any

from apache_beam.portability import common_urns
from apache_beam.transforms.external import (
    ExternalTransform,
    JavaExternalTransform,
    JavaJarExpansionService,
    SchemaAwareExternalTransform,
)

from headrace.errors import UnsupportedTransformError

#: What to write instead, by the name of the transform's class.
_INSTEAD = {
    "ReadFromJdbc": (
        'read the table with Spark, spark.read.format("jdbc"), and hand the DataFrame to '
        "headrace.io.ReadFromSpark"
    ),
    "WriteToJdbc": 'write with headrace.io.WriteToSpark(function=...): frame.write.format("jdbc")',
}
_ANYTHING = (
    "if Spark can read or write it, headrace.io.ReadFromSpark and WriteToSpark bring its frames "
    "into the pipeline"
)


def refuse_java(transform: Any) -> None:
    """Refuse a transform that only a Java service can expand.

    Raises:
        UnsupportedTransformError: says what to write instead.
    """
    if not _is_java(transform):
        return
    kind = type(transform).__name__
    msg = (
        f"{transform.label}: {kind} ({_urn_of(transform)}) is a cross-language transform: its code "
        f"is Java, and headrace runs Python on Spark. Instead, {_INSTEAD.get(kind, _ANYTHING)}"
    )
    raise UnsupportedTransformError(msg)


def _urn_of(transform: Any) -> str:
    """Give the URN by which its service would know it."""
    if isinstance(transform, JavaExternalTransform):
        return str(common_urns.java_class_lookup.urn)
    if isinstance(transform, SchemaAwareExternalTransform):
        return str(common_urns.schematransform_based_expand.urn)
    return str(transform._urn)  # noqa: SLF001 (Beam has no other door)


def _is_java(transform: Any) -> bool:
    if isinstance(transform, JavaExternalTransform):
        return True
    if not isinstance(transform, (ExternalTransform, SchemaAwareExternalTransform)):
        return False
    # An address may be that of a Python service, whose transforms can run.
    service = transform._expansion_service  # noqa: SLF001 (Beam has no other door)
    return isinstance(service, JavaJarExpansionService)
