"""Scripted sources: what a test stream brings, step by step. Frozen data, nothing but values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

#: How a channel's `source_ref` begins when a script feeds it; the script's name and a tag follow.
SCRIPT_PREFIX = "script:"


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


def script_ref(name: str, tag: str) -> str:
    """Name the source of a channel that a script's output feeds."""
    return f"{SCRIPT_PREFIX}{name}:{tag}"
