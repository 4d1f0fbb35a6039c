"""What decides how the state of a plan is read: texts to compare, not to compute with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """Prints of coders, windowings and state cells: equal texts, equal bytes."""

    coders: Mapping[str, str] = field(default_factory=dict)  # by coder id
    windowings: Mapping[str, str] = field(default_factory=dict)  # by windowing id
    #: The windowings again, part by part and in words; for people.
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    state: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by stage id
