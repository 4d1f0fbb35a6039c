"""Holds the results of a run against the table of exceptions.

Takes results and rows, gives one `Judged` for each test and the complaints: failures that no row
explains, and rows that explain nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.lab.experiments.beam_suites.exceptions import Kind, Known, row_for
from headrace.lab.experiments.beam_suites.results import Ended, Result


class Meaning(Enum):
    """What a result means."""

    PASSED = "passed"
    SKIPPED = "skipped by Beam"
    IMPOSSIBLE = "impossible here"  # the table says why, and it is not ours
    OURS = "ours to mend"  # failed; no row explains it, or one says that the defect is ours
    STALE = "passes now"  # a row says that it cannot


@dataclass(frozen=True)
class Judged:
    """A result, and what it means."""

    result: Result
    verdict: Meaning
    row: Known | None

    @property
    def name(self) -> str:
        """The test's full name."""
        return name_of(self.result)


def name_of(result: Result) -> str:
    """Give the name by which the table speaks of a test."""
    return f"{result.module}::{result.test}" if result.test else result.module


def judge(results: Iterable[Result], known: Sequence[Known]) -> list[Judged]:
    """Judge every test, in the order of their names."""
    found = [
        _judged(result, row_for(name_of(result), known))
        for result in results
        if result.test or result.outcome is not Ended.PASSED
    ]
    return sorted(found, key=lambda each: each.name)


def _judged(result: Result, row: Known | None) -> Judged:
    match result.outcome:
        case Ended.SKIPPED:
            verdict = Meaning.SKIPPED
        case Ended.PASSED:
            may = row is None or row.sometimes or row.kind is Kind.ONE_SHARD
            verdict = Meaning.PASSED if may else Meaning.STALE
        case Ended.FAILED | Ended.BEGUN:
            ours = row is None or row.kind in (Kind.OURS, Kind.ONE_SHARD)
            verdict = Meaning.OURS if ours else Meaning.IMPOSSIBLE
    return Judged(result, verdict, row)


def complaints(judged: Sequence[Judged]) -> list[str]:
    """What must be mended: here, or in the table."""
    told = []
    for each in judged:
        if each.verdict is Meaning.OURS:
            how = "ended its process" if each.result.outcome is Ended.BEGUN else "failed"
            told.append(f"{each.name}: {how}: {error_line(each.result.text)}")
        elif each.verdict is Meaning.STALE:
            told.append(f"{each.name}: passes, and the table says that it cannot")
    return told


def error_line(text: str) -> str:
    r"""The line of a failure that says most: the first of the last error that pytest shows.

    >>> error_line("a.py:1: in f\nE   ValueError: no\nE     more: all of it")
    'ValueError: no'
    >>> error_line("E   ValueError: these:\nE     - a\nE     - b")
    'ValueError: these: - a'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [index for index, line in enumerate(lines) if line.startswith("E ")]
    if not marked:
        return (lines or [""])[-1].strip()
    first = marked[-1]
    while first - 1 in marked:
        first -= 1
    said = [line.removeprefix("E").strip() for line in lines[first : marked[-1] + 1]]
    return " ".join(said[:2] if said[0].endswith(":") else said[:1])
