"""How a measurement ended, in one word that all experiments share, and the status of a command.

Frozen choices. Who compares rows gives a `Verdict`, which says what is wrong with them; this says
what it comes to.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Ending(Enum):
    """How a measurement ended."""

    RIGHT = "right"  # the answer is the expected one; there was no bar
    OK = "ok"  # right, and every bar cleared
    MISSED = "missed"  # right, and a bar not cleared
    UNBROKEN = "unbroken"  # no row breaks a rule; which rows there must be, nobody can say
    TOO_SHORT = "too short"  # right, in too little to prove anything
    WRONG = "WRONG"  # rows lost, doubled or changed: the figures are void
    FAILED = "failed"  # it did not end, or ended without an answer
    LATE = "late"  # given up
    REFUSED = "refused"  # the system cannot answer such a question
    UNJUDGED = "unjudged"  # nobody could say whether the answer is right
    NOT_THERE = "-"  # there was nothing to be measured

    @classmethod
    def _missing_(cls, value: object) -> Ending | None:
        """Read the words of older files."""
        return {
            "no bar": cls.RIGHT, "wrong": cls.WRONG, "DIFFERENT": cls.WRONG, "FAILED": cls.FAILED,
        }.get(str(value))

    @property
    def counts(self) -> bool:
        """Whether a figure of it counts."""
        return self in (Ending.RIGHT, Ending.OK, Ending.MISSED, Ending.UNBROKEN)

    @property
    def bad(self) -> bool:
        """Whether what was to be shown was not."""
        return self in (Ending.WRONG, Ending.FAILED, Ending.TOO_SHORT)


def of_bars(cleared: Iterable[bool], *, wrong: bool) -> Ending:
    """Say how a measurement ended whose figures are held against bars; a wrong answer weighs more.

    >>> [of_bars(bars, wrong=False).value for bars in ([], [True], [True, False])]
    ['right', 'ok', 'missed']
    """
    if wrong:
        return Ending.WRONG
    found = list(cleared)
    if not found:
        return Ending.RIGHT
    return Ending.OK if all(found) else Ending.MISSED


def exit_status(endings: Iterable[Ending]) -> int:
    """Give the status of a command: 0 all is well, 1 a bar was missed, 2 an answer was wrong."""
    found = set(endings)
    if any(ending.bad for ending in found):
        return 2
    return 1 if Ending.MISSED in found else 0
