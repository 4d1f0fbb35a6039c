"""Holds what a package's tests did on headrace against what they did on Beam's local runner.

Takes the results of both runs and the table of exceptions, gives judged results: a test that fails
on Beam's own runner too is not ours, whatever the table says. Pure.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lab.experiments.beam_suites.exceptions import Kind, Known
from headrace.lab.experiments.beam_suites.judge import Judged, error_line, judge, name_of
from headrace.lab.experiments.beam_suites.results import Ended, Result
from headrace.lab.experiments.user_suites.packages import Package

#: How much of a failure's first line stands in a reason.
REASON = 160


@dataclass(frozen=True, slots=True)
class PackageVerdict:
    """A package and what its tests did."""

    package: Package
    judged: tuple[Judged, ...]
    missing: tuple[str, ...]  # modules that one of the runs did not come to the end of


def verdict(
    package: Package, modules: Sequence[str], ours: Sequence[Sequence[Result]],
    yardstick: Sequence[Result], known: Sequence[Known],
) -> PackageVerdict:  # fmt: skip
    """Judge a package's tests; each run of ours goes through all modules, and has its part of them.

    Args:
        package: whose tests they are.
        modules: all of them.
        ours: what they did on headrace.
        yardstick: what all of them did on Beam's local runner.
        known: the table of exceptions.
    """
    theirs = [
        Known(tests=(glob.escape(name_of(each)),), kind=Kind.BEAM, reason=_reason(each),
              sometimes=True)
        for each in yardstick
        if each.outcome in (Ended.FAILED, Ended.BEGUN)
    ]  # fmt: skip
    ended = [{each.module for each in run if not each.test} for run in (*ours, yardstick)]
    missing = tuple(module for module in modules if any(module not in run for run in ended))
    results = [each for run in ours for each in run]
    return PackageVerdict(package, tuple(judge(results, [*theirs, *known])), missing)


def _reason(result: Result) -> str:
    text = " ".join(error_line(result.text).split()) or "ends its process"
    return text if len(text) <= REASON else f"{text[: REASON - 3]}..."
