"""The tables of a page that is read by somebody who must choose a system, from a run's summary.

A page has places, `<!-- lab: NAME -->` and `<!-- lab: end -->`; what stands between them is made
from the run, and all else is left as it is. So a page's figures are those of the run that lies
beside it, and a test can see that they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import OptionError
from headrace.lab.report.compared import (
    CPU,
    LATENCY,
    MEMORY,
    ONCE,
    OURS,
    RATE,
    RECOVERY,
    SHARED_MEMORY,
    What,
    best,
    compared,
    counted,
    figure_of,
    guarantees_of,
    leads,
    least,
    measured,
    multiple,
    questions_of,
    refusing,
    short,
)
from headrace.lab.report.explained import lost
from headrace.lab.results.folder import RunFolder
from headrace.lab.results.summary import REFUSED, Figure, Summary

_SLOT = re.compile(
    r"(?P<begin><!-- lab: (?P<name>[a-z]+) -->\n)(?P<inside>.*?)(?P<end><!-- lab: end -->)",
    flags=re.DOTALL,
)


def filled(text: str, folder: RunFolder, source: str) -> str:
    """Give a page with its places filled from a run.

    Args:
        text: the page.
        folder: the run.
        source: what the page calls that folder, so that its readers can look figures up.

    Raises:
        OptionError: the page has no place, or one that nobody can fill.
    """
    found = [match["name"] for match in _SLOT.finditer(text)]
    if not found:
        msg = "the page has no place for figures: write <!-- lab: rates --> and <!-- lab: end -->"
        raise OptionError(msg)
    unknown = [name for name in found if name not in SLOTS]
    if unknown:
        msg = f"there is no place {unknown[0]!r}; there are {', '.join(SLOTS)}"
        raise OptionError(msg)
    summary, machine = folder.summary(), folder.environment()

    def fill(match: re.Match[str]) -> str:
        made = SLOTS[match["name"]](summary, machine)
        told = f"From `{source}/summary.json`."
        return f"{match['begin']}\n{made}\n\n{told}\n\n{match['end']}"

    return _SLOT.sub(fill, text)


def _run(summary: Summary, machine: Mapping[str, Any]) -> str:
    packages = machine.get("packages", {})
    versions = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
    memory = machine.get("memory_bytes")
    space = "" if memory is None else f", {memory / 2**30:.0f} GiB of memory"
    void = len(summary.voids)
    lines = [
        f"Made on {summary.started[:10]} in {summary.seconds / 60:.0f} minutes on "
        f"{machine.get('cores')} cores{space}, Python {machine.get('python')}, {versions}. "
        f"{len(summary.figures) - void} figures count, {void} are void.",
    ]
    lines += [f"{s.name} was absent: {s.absent}." for s in summary.systems if s.absent]
    if summary.interrupted:
        lines.append(f"The run was interrupted: {summary.interrupted}.")
    return "\n".join(lines)


def _verdict(summary: Summary, machine: Mapping[str, Any]) -> str:
    del machine
    lines = []
    for question in questions_of(summary):
        first = best(summary, question, RATE)
        if first is None:
            lines.append(f"* `{question}`: no rate counts.")
            continue
        told = f"* `{question}`: **{first.system}** sustains the most, {_told(first)}."
        stands = [
            f"{multiple(each.times)} {each.theirs.system}{each.undecided}"
            for each in compared(summary)
            if each.question == question and each.what is RATE and each.times is not None
        ]
        told = f"{told} {OURS} is at {', '.join(stands)}." if stands else told
        refused = refusing(summary, question)
        lines.append(f"{told} {' and '.join(refused)} cannot be asked it." if refused else told)
    return "\n".join(lines)


def _grid(what: What) -> Callable[[Summary, Mapping[str, Any]], str]:
    def made(summary: Summary, machine: Mapping[str, Any]) -> str:
        del machine
        names = measured(summary)
        rows = []
        for question in questions_of(summary):
            figures = [figure_of(summary, name, question, what) for name in names]
            top = best(summary, question, what)
            cells = [
                _cell(figure, top) or (_shared(summary, name, question) if what is MEMORY else "")
                for figure, name in zip(figures, names, strict=True)
            ]
            if any(cells):
                rows.append((f"`{question}`", *cells))
        if not rows:
            return "The run did not ask for it."
        return f"{_table(('question', *names), rows)}\n\n{_BOLD}"

    return made


#: What is said below every grid.
_BOLD = (
    "Bold: the best, and what is not told apart from it: their intervals meet, or one was measured "
    f"once and they are within {ONCE - 1:.0%} of each other."
)


def _cell(figure: Figure | None, top: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return "refused" if figure.void.startswith(REFUSED) else "void"
    return f"**{_told(figure)}**" if leads(figure, top) else _told(figure)


def _shared(summary: Summary, name: str, question: str) -> str:
    figure = figure_of(summary, name, question, SHARED_MEMORY)
    return "" if figure is None or figure.value is None else f"{_told(figure)}, shared"


def _told(figure: Figure) -> str:
    """Write a figure without what its table says of all of them."""
    assert figure.value is not None
    if figure.unit == "events/s":
        return f"{least(figure)}{counted(figure.value)}/s"
    unit = "s" if figure.unit.startswith("s per") else figure.unit
    return short(figure.value, unit)


def _guarantees(summary: Summary, machine: Mapping[str, Any]) -> str:
    del machine
    rows = [
        (name, each.name, each.shown.value, each.evidence)
        for name in measured(summary) for each in guarantees_of(summary, name)
    ]
    return _table(("system", "guarantee", "shown", "by what"), rows)


def _lost(summary: Summary, machine: Mapping[str, Any]) -> str:
    del machine
    found = lost(compared(summary))
    if not found:
        return f"{OURS} is behind in no figure of this run."
    by_reason: dict[str, list[str]] = {}
    for each, why in found:
        ours, theirs = each.ours, each.theirs
        by_reason.setdefault(why, []).append(
            f"`{each.question}`, {each.what.title}: {_told(ours)}, {theirs.system} {_told(theirs)}"
        )
    return "\n".join(f"* {'; '.join(told)}. {why}" for why, told in by_reason.items())


def _void(summary: Summary, machine: Mapping[str, Any]) -> str:
    del machine
    by_reason: dict[tuple[str, str], list[str]] = {}
    for figure in summary.voids:
        told = f"`{figure.question}` {figure.experiment} {figure.name}"
        by_reason.setdefault((figure.system, figure.void), []).append(told)
    if not by_reason:
        return "No figure of this run is void."
    return "\n".join(
        f"* {system}, {', '.join(told)}: {why}." for (system, why), told in by_reason.items()
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


#: What can stand in a page, by name.
SLOTS: Mapping[str, Callable[[Summary, Mapping[str, Any]], str]] = {
    "run": _run, "verdict": _verdict, "rates": _grid(RATE), "latency": _grid(LATENCY),
    "cost": _grid(CPU), "memory": _grid(MEMORY), "recovery": _grid(RECOVERY),
    "guarantees": _guarantees, "lost": _lost, "void": _void,
}
