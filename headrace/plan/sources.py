"""What feeds a channel that no stage writes. Frozen data: the compiler decides, the others ask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Impulse:
    """One empty element, when the pipeline begins."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a DataFrame."""

    name: str  # of the transform that reads it


@dataclass(frozen=True, slots=True)
class ScriptOutput:
    """What a test stream brings to one of its outputs."""

    script: str  # name of the transform
    tag: str  # of the output


Source = Impulse | Frame | ScriptOutput
