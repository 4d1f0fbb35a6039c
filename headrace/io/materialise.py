"""Brings the results of an eager pipeline back to the driver: `[1, 2, 3] | beam.Map(f)`.

Beam ends such a pipeline in DoFns that append to a list in the driver's memory, out of a worker's
reach. Here each of them becomes a sink: elements travel encoded, and the DoFn is called for them on
the driver.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.pipeline import PipelineVisitor, PTransformOverride

from headrace.errors import UnsupportedTransformError
from headrace.io.sinks import Lease, Sink


class _Hand(Sink):
    """Hands every element to a DoFn on the driver."""

    def __init__(self, fn: Any, coder: Any) -> None:
        super().__init__("value binary")
        self._fn, self._coder = fn, coder

    def deliver(self, frame: Any, lease: Lease) -> None:  # noqa: ARG002 (every sink is given it)
        """Take the elements, all at once: the user asked for a list."""
        for row in frame.collect():
            self._fn.process(self._coder.decode(bytes(row[0])))

    def check_epochs(self, name: str) -> None:
        """Refuse: a list has an end."""
        msg = (
            f"{name}: the results of a pipeline without end cannot come back as a list; build a "
            "beam.Pipeline and give it a sink"
        )
        raise UnsupportedTransformError(msg)


class _Materialise(beam.PTransform):  # type: ignore[misc]
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self._fn = fn

    def expand(self, pcoll: Any) -> Any:
        coder = coders.registry.get_coder(pcoll.element_type)
        encoded = pcoll | "Encode" >> beam.Map(coder.encode).with_output_types(bytes)
        _ = encoded | "Hand" >> _Hand(self._fn, coder)
        return encoded


def _is_list(applied: Any) -> bool:
    return bool(getattr(getattr(applied.transform, "fn", None), "is_materialize_values_do_fn", 0))


class _Override(PTransformOverride):  # type: ignore[misc]
    def matches(self, applied: Any) -> bool:
        return _is_list(applied)

    def get_replacement_transform_for_applied_ptransform(self, applied: Any) -> Any:
        return _Materialise(applied.transform.fn)


class _Finder(PipelineVisitor):  # type: ignore[misc]
    found = False

    def visit_transform(self, applied: Any) -> None:
        self.found = self.found or _is_list(applied)


def materialise(pipeline: Any) -> None:
    """Let the lists at the ends of an eager pipeline be filled; others stay as they are."""
    finder = _Finder()
    pipeline.visit(finder)
    if finder.found:
        pipeline.replace_all([_Override()])
