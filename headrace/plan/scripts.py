"""Scripted sources: what a test stream brings, step by step. Frozen data, nothing but values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StepKind(Enum):
    """What one step does."""

    ELEMENTS = "elements"  # elements arrive at one output
    WATERMARK = "watermark"  # one output's watermark moves on
    CLOCK = "clock"  # processing time moves on


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStep:
    """One step of a script: an epoch of its own."""

    kind: StepKind
    tag: str = ""  # the output concerned
    elements: tuple[tuple[bytes, int], ...] = ()  # encoded by the script's coder, with their times
    micros: int = 0  # WATERMARK: the new one; CLOCK: how far


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A test stream."""

    name: str
    coder_id: str  # of the elements
    tags: tuple[str, ...]  # its outputs
    steps: tuple[ScriptStep, ...]
