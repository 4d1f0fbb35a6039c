"""Finds the DataFrames a pipeline begins with and the sinks it ends in.

Takes a Beam pipeline, gives them by the full names of their transforms: the names under which the
compiler's plan speaks of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apache_beam.pipeline import PipelineVisitor

from headrace.errors import OptionError
from headrace.io.later import LaterFrame
from headrace.io.sinks import Sink
from headrace.io.sources import Read, ReadFromSpark
from headrace.io.write import WriteToSpark


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """What stays on the driver while the plan travels."""

    sources: Mapping[str, Any] = field(default_factory=dict)  # transform's name -> DataFrame
    reads: Mapping[str, Read] = field(default_factory=dict)  # the same names -> what is asked for
    sinks: Mapping[str, Sink] = field(default_factory=dict)

    def session(self) -> Any | None:
        """Give the session of the DataFrames; None if there are none."""
        made = (f for f in self.sources.values() if not isinstance(f, LaterFrame))
        return next((frame.sparkSession for frame in made), None)

    def needs(self) -> frozenset[str]:
        """Give what a session must have for the DataFrames that are still to be made.

        What a sink goes with counts too: the next pipeline of a program may read what this wrote.
        """
        later = [f.needs for f in self.sources.values() if isinstance(f, LaterFrame)]
        return frozenset(filter(None, [*later, *(sink.needs for sink in self.sinks.values())]))

    def made(self, session: Any) -> Frames:
        """Give the same with every DataFrame made, in the session that is known now."""
        return replace(self, sources={
            name: frame.made(session) if isinstance(frame, LaterFrame) else frame
            for name, frame in self.sources.items()
        })  # fmt: skip

    def streaming(self) -> tuple[str, ...]:
        """Give the names of the reads whose DataFrames are streaming."""
        return tuple(name for name, read in self.reads.items() if read.streaming)

    def ordered_sinks(self) -> tuple[str, ...]:
        """Give the names of the sinks that want their rows in order."""
        return tuple(name for name, sink in self.sinks.items() if sink.ordered)

    def renamed(self, names: Mapping[str, str]) -> Frames:
        """Give the same under other names, for the transforms that have got one."""
        return Frames(
            sources={names.get(name, name): frame for name, frame in self.sources.items()},
            reads={names.get(name, name): read for name, read in self.reads.items()},
            sinks={names.get(name, name): sink for name, sink in self.sinks.items()},
        )

    def check_epochs(self) -> None:
        """Refuse sinks that cannot take the rows of a pipeline epoch by epoch.

        Raises:
            HeadraceError: says which sink, and what to write instead.
        """
        writers: dict[str, str] = {}
        for name, sink in self.sinks.items():
            sink.check_epochs(name)
            if isinstance(sink, WriteToSpark) and sink.epochs_at is not None:
                other = writers.setdefault(sink.epochs_at, name)
                if other != name:
                    msg = (
                        f"{name} and {other} write to the same path, {sink.epochs_at}, and would "
                        "replace each other's epochs; give each a path of its own"
                    )
                    raise OptionError(msg)


class _Finder(PipelineVisitor):  # type: ignore[misc]
    def __init__(self) -> None:
        self.sources: dict[str, Any] = {}
        self.reads: dict[str, Read] = {}
        self.sinks: dict[str, Sink] = {}

    def visit_transform(self, applied: Any) -> None:
        transform = applied.transform
        if isinstance(transform, ReadFromSpark):
            self.sources[applied.full_label] = transform.frame
            self.reads[applied.full_label] = transform.read
        elif isinstance(transform, Sink):
            self.sinks[applied.full_label] = transform


def frames_of(pipeline: Any) -> Frames:
    """Look through a pipeline."""
    finder = _Finder()
    pipeline.visit(finder)
    return Frames(sources=finder.sources, reads=finder.reads, sinks=finder.sinks)
