"""Cuts the time between an event and its result into stages, by what a system told of its epochs.

Takes when each result's newest input was due and taken and when the result left, and when epochs
began and how long their parts took. Gives seconds of each stage for each
result, which add up to its age. Knows nothing of who measured, and of no engine.

    due      an epoch begins    the one that takes it    taken   its end   one that gives it   left
     |---- epoch ----|---- queue ----|------- shuffle -----|-parts-|- watermark --|--- parts ---|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.lab.data_engine.schedule import F64, I64

#: The stages, in the order of a result's way.
STAGES = ("queue", "epoch", "shuffle", "compute", "watermark", "commit")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of an epoch; of stages that take turns in it, only their seconds are known."""

    stages: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(seconds for _, seconds in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStages:
    """An epoch, or a batch of Spark's: when it began, and its parts one after the other."""

    began: float
    parts: tuple[Part, ...]

    @property
    def ended(self) -> float:
        """When its last part was over."""
        return self.began + sum(part.seconds for part in self.parts)


def stages_of(
    due: F64, taken: F64, left: F64, epochs: Sequence[EpochStages], zero: float
) -> dict[str, F64]:
    """Give the stages of each result.

    Args:
        due: when its newest input was to be sent.
        taken: when the system took that.
        left: when the result left.
        epochs: of the run; without any only the time until an event was taken is known, `queue`.
        zero: when the seconds of the first three begin, in seconds since 1970.
    """
    taken = np.clip(taken, due, np.maximum(left, due))
    if not epochs or not len(due):
        return {"queue": taken - due}
    due, taken, left = due + zero, taken + zero, np.maximum(left, due) + zero
    began = np.array([epoch.began for epoch in epochs])
    ended = np.array([epoch.ended for epoch in epochs])
    found = {name: np.zeros(len(due)) for name in STAGES}
    last = len(epochs) - 1
    # An event that falls due while an epoch runs may still be taken by it.
    takes = np.clip(np.searchsorted(began, taken, side="right") - 1, 0, last)
    gives = np.maximum(np.clip(np.searchsorted(began, left, side="right") - 1, 0, last), takes)
    begins = np.clip(began[takes], due, taken)
    first = np.searchsorted(began, due, side="left")
    waited = np.where(first <= takes, began[np.minimum(first, last)], due)
    found["epoch"] = np.clip(waited, due, begins) - due
    found["queue"] = begins - due - found["epoch"]
    found["shuffle"] += taken - begins  # Spark plans, and starts the tasks that take it
    same = gives == takes
    out = np.where(same, left, np.clip(ended[takes], taken, left))
    _share(found, epochs, takes, taken, out)
    back = np.where(same, out, np.clip(began[gives], out, left))
    found["watermark"] = back - out
    _share(found, epochs, gives, back, left)
    return found


def _share(
    found: dict[str, F64], epochs: Sequence[EpochStages], which: I64, start: F64, end: F64
) -> None:
    """Add what lies of each stretch in the parts of its epoch; what is beyond them is `commit`."""
    for number in np.unique(which):
        own = np.flatnonzero(which == number)
        low, high, at = start[own], end[own], epochs[number].began
        found["shuffle"][own] += np.clip(np.minimum(high, at) - low, 0.0, None)  # not begun yet
        for part in epochs[number].parts:
            until = at + part.seconds
            inside = np.clip(np.minimum(high, until) - np.maximum(low, at), 0.0, None)
            for name, seconds in part.stages:
                if part.seconds:
                    found[name][own] += inside * (seconds / part.seconds)
            at = until
        found["commit"][own] += np.clip(high - np.maximum(low, at), 0.0, None)
