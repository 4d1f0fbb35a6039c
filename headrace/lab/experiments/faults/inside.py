"""Faults that a driver does to itself: a slow disk, a clock that jumps, storage without locks.

Applied by `faults.run` before Spark starts, and nowhere else: the product knows nothing of them.
What took effect is noted in a file, line by line, so that faults are counted which happened.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.engine import clock
from headrace.lab.slow_disk import pause, slow_checkpoints

#: What is noted when a fault took effect.
SLOW, JUMP = "slow disk", "clock jump"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What a driver does to itself."""

    trace: str  # the file of notes
    slow_seconds: float = 0.0  # the longest pause before a file is written or renamed
    jumps: tuple[tuple[float, float], ...] = ()  # (seconds after the start, seconds by which)
    no_locks: bool = False

    def to_json(self) -> str:
        """Give it as text, for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Inside:
        """Read what `to_json` gave."""
        told = json.loads(text)
        return cls(**{**told, "jumps": tuple((at, by) for at, by in told["jumps"])})


def apply(inside: Inside) -> None:
    """Do it to this process, and by way of the checkpoint's files to its workers."""
    if inside.slow_seconds:
        _note(inside.trace, SLOW)
        slow_checkpoints(inside.slow_seconds)
        vars(os)["rename"] = _slow_rename(inside.slow_seconds)
    if inside.jumps:
        vars(clock)["time"] = JumpingTime(inside.jumps, inside.trace)
    if inside.no_locks:
        vars(fcntl)["flock"] = no_lock


class JumpingTime:
    """In place of the module `time`: the wall clock of a machine that somebody sets."""

    def __init__(self, jumps: tuple[tuple[float, float], ...], trace: str) -> None:
        self._began = time.monotonic()
        self._left = sorted(jumps)
        self._offset = 0
        self._trace = trace

    def monotonic_ns(self) -> int:
        """Give the time since the machine was started, which nobody sets."""
        return time.monotonic_ns()

    def time_ns(self) -> int:
        """Give the time as the clock shows it now."""
        while self._left and time.monotonic() - self._began >= self._left[0][0]:
            _, by = self._left.pop(0)
            self._offset += round(by * 1e9)
            _note(self._trace, JUMP)
        return time.time_ns() + self._offset


def noted(trace: Path) -> list[str]:
    """Give the faults that took effect, in order."""
    return trace.read_text(encoding="utf-8").splitlines() if trace.exists() else []


def _note(trace: str, text: str) -> None:
    with open(trace, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _slow_rename(longest: float) -> Callable[..., None]:
    """Give renames that take their time: between two of them a sink is half done."""
    rename = os.rename

    def slow(*where: Any, **more: Any) -> None:
        rename(*where, **more)
        pause(longest)

    return slow


def no_lock(*_unused: Any) -> None:
    """In place of `fcntl.flock`, on storage that has no locks."""
    raise OSError(errno.ENOLCK, "no locks available")
