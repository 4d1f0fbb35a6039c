"""Keeps what Beam knows of elements and its coders do not tell: types of the user's own classes.

Takes a pipeline before it becomes a proto, and notes in the annotations of each transform what its
outputs are made of, as type hints say. A NamedTuple that nobody registered has a coder that pickles
anything: in the proto its fields would be gone. What a hint says stays a promise, as in a coder.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb

from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.shapes import OTHER, Shape, TupleShape

#: The annotation: shapes by the tag of the output, pickled.
KEY = "headrace:elements"


def note_element_types(pipeline: beam.Pipeline) -> None:
    """Note of every transform what its outputs are made of."""
    pipeline.visit(_Noting())


def noted(transform: beam_pb.PTransform) -> Mapping[str, Shape]:
    """What was noted of the outputs of a transform, by tag."""
    held = transform.annotations.get(KEY)
    found: Mapping[str, Shape] = {} if held is None else pickle.loads(held)
    return found


def refined(shape: Shape | None, hinted: Shape | None) -> Shape | None:
    """A shape that a coder tells, with what is not known of it taken from a type hint."""
    if hinted is None or shape is None or shape == OTHER:
        return shape if hinted is None else hinted
    if isinstance(shape, TupleShape) and isinstance(hinted, TupleShape):
        if len(shape.items) == len(hinted.items):
            pairs = zip(shape.items, hinted.items, strict=True)
            return replace(shape, items=tuple(refined(a, b) or OTHER for a, b in pairs))
    return shape


class _Noting(PipelineVisitor):  # type: ignore[misc]
    def enter_composite_transform(self, node: AppliedPTransform) -> None:
        self.visit_transform(node)

    def visit_transform(self, node: AppliedPTransform) -> None:
        shapes: dict[str, Shape] = {}
        for tag, output in node.outputs.items():
            shape = _shape(getattr(output, "element_type", None))
            if shape is not None and shape != OTHER:
                shapes[str(tag)] = shape
        if shapes:
            node.annotations = {**(node.annotations or {}), KEY: pickle.dumps(shapes)}


def _shape(hint: Any) -> Shape | None:
    return None if hint is None else shape_of_hint(hint)
