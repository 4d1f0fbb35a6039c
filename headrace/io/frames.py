"""Finds the DataFrames a pipeline begins with and the sinks it ends in.

Takes a Beam pipeline, gives them by the full names of their transforms: the names under which the
compiler's plan speaks of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apache_beam.pipeline import PipelineVisitor

from headrace.io.sinks import Sink
from headrace.io.sources import ReadFromSpark


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """What stays on the driver while the plan travels."""

    sources: Mapping[str, Any] = field(default_factory=dict)  # transform's name -> DataFrame
    sinks: Mapping[str, Sink] = field(default_factory=dict)

    def session(self) -> Any | None:
        """Give the session of the DataFrames; None if there are none."""
        return next((frame.sparkSession for frame in self.sources.values()), None)


class _Finder(PipelineVisitor):  # type: ignore[misc]
    def __init__(self) -> None:
        self.sources: dict[str, Any] = {}
        self.sinks: dict[str, Sink] = {}

    def visit_transform(self, applied: Any) -> None:
        transform = applied.transform
        if isinstance(transform, ReadFromSpark):
            self.sources[applied.full_label] = transform.frame
        elif isinstance(transform, Sink):
            self.sinks[applied.full_label] = transform


def frames_of(pipeline: Any) -> Frames:
    """Look through a pipeline."""
    finder = _Finder()
    pipeline.visit(finder)
    return Frames(sources=finder.sources, sinks=finder.sinks)
