"""Decides whether an answer is right: the rows of a run against those of the oracle.

Rows are compared through the workload's rule, as multisets: what is missing, what is too much.
Runs nothing and asks nobody; the caller brings both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.lab.workload import Row, Rule, all_rows

#: How many of the missing and of the surplus rows are shown.
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer is right, and what is wrong with it."""

    rows: int  # of the run, after the rule
    expected: int  # of the oracle, after the rule
    missing: int  # rows that the oracle has and the run has not
    surplus: int  # rows that the run has and the oracle has not
    missing_rows: tuple[Row, ...]  # the first of them
    surplus_rows: tuple[Row, ...]

    @property
    def right(self) -> bool:
        """Whether every row is there, as often as it must be."""
        return self.missing == self.surplus == 0

    def lines(self) -> list[str]:
        """Say it, a line each."""
        if self.right and not self.expected:
            return ["right, but it says little: neither the run nor the oracle has a row"]
        if self.right:
            return [f"right: {self.rows:,} rows, as the oracle has them"]
        found = [
            f"WRONG: {self.rows:,} rows, the oracle has {self.expected:,}; "
            f"{self.missing:,} missing, {self.surplus:,} too many"
        ]
        found += _shown("missing", self.missing, self.missing_rows)
        found += _shown("too many", self.surplus, self.surplus_rows)
        return found


def _shown(word: str, count: int, rows: tuple[Row, ...]) -> list[str]:
    found = [f"  {word}: {row!r}" for row in rows]
    if count > len(rows):
        found.append(f"  {word}: and {count - len(rows):,} more")
    return found


def judge(rows: Iterable[Row], expected: Iterable[Row], rule: Rule = all_rows) -> Verdict:
    r"""Compare the rows of a run with those of the oracle.

    >>> judge([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]).right
    True
    >>> print(*judge([("a", 1), ("a", 1)], [("a", 1), ("b", 2)]).lines(), sep="\n")
    WRONG: 2 rows, the oracle has 2; 1 missing, 1 too many
      missing: ('b', 2)
      too many: ('a', 1)
    """
    ours, theirs = rule(rows), rule(expected)
    missing, surplus = theirs - ours, ours - theirs
    return Verdict(
        rows=ours.total(), expected=theirs.total(),
        missing=missing.total(), surplus=surplus.total(),
        missing_rows=_first(missing), surplus_rows=_first(surplus),
    )


def judge_numbers(found: npt.NDArray[np.int64], sent: npt.NDArray[np.int64]) -> Verdict:
    r"""Compare the numbers that came with those that were sent, each of which must come once.

    >>> print(*judge_numbers(np.array([0, 2, 2]), np.arange(3)).lines(), sep="\n")
    WRONG: 3 rows, the oracle has 3; 1 missing, 1 too many
      missing: (1,)
      too many: (2,)
    """
    most = int(max(found.max(initial=-1), sent.max(initial=-1))) + 1
    apart = np.bincount(found, minlength=most) - np.bincount(sent, minlength=most)
    missing, surplus = np.flatnonzero(apart < 0), np.flatnonzero(apart > 0)
    return Verdict(
        rows=len(found), expected=len(sent),
        missing=int(-apart[missing].sum()), surplus=int(apart[surplus].sum()),
        missing_rows=tuple((int(number),) for number in missing[:SHOWN]),
        surplus_rows=tuple((int(number),) for number in surplus[:SHOWN]),
    )


def _first(rows: Counter[Row]) -> tuple[Row, ...]:
    """The least rows, so that two runs show the same; rows of mixed types have no order."""
    try:
        ordered = sorted(rows)
    except TypeError:
        ordered = sorted(rows, key=repr)
    return tuple(row for row in ordered for _ in range(rows[row]))[:SHOWN]
