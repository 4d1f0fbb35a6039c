"""The verdict as HTML: who is ahead in each question, a grid of figures, what is lost and why.

Stands first in the page and needs no script. Beside each figure stands what the run has shown of
the guarantees under which it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headrace.lab.report.compared import (
    CPU,
    LATENCY,
    OURS,
    RATE,
    Compared,
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
from headrace.lab.report.tables import label, table
from headrace.lab.results.summary import REFUSED, Figure, Shown, Summary

#: What a guarantee is called where there is little room, by how its name begins.
_SHORT = (("exactly once", "once"), ("order", "in order"), ("durability", "durable"))
_SIGNS = {Shown.YES: ("good", "&#10003;"), Shown.NO: ("bad", "&#10007;"), Shown.OPEN: ("soft", "?")}


def verdict(summaries: Sequence[Summary], several: bool) -> str:
    """Give the verdict of some runs."""
    return "\n".join(part for summary in summaries for part in _of_run(summary, several))


def _of_run(summary: Summary, several: bool) -> list[str]:
    parts = []
    if summary.interrupted:
        parts.append(
            f'<p><span class="bad">{escape(summary.name)} was interrupted</span> '
            f"({escape(summary.interrupted)}): it has the figures of what was measured.</p>"
        )
    relations = compared(summary)
    parts += [
        f"<p>{said}</p>" for question in questions_of(summary)
        if (said := _said(summary, question, relations, several))
    ]
    if any(figure_of(summary, name, question, what) is not None
           for name in measured(summary) for question in questions_of(summary)
           for what in (RATE, LATENCY)):
        parts.append(_grid(summary, several))
    parts += _lost(relations)
    parts += [_of_system(summary, name, several) for name in measured(summary)]
    parts += [
        f"<p>{escape(label(summary, system.name, several))}: absent. {escape(system.absent)}</p>"
        for system in summary.systems if system.absent
    ]
    return parts


def _said(
    summary: Summary, question: str, relations: tuple[Compared, ...], several: bool
) -> str:
    """Say in a sentence who is ahead in a question, and where we stand."""
    first = best(summary, question, RATE)
    if first is None or len(measured(summary)) < 2:
        return ""
    name = escape(label(summary, first.system, several))
    told = (
        f"<em>{escape(question)}</em>: <strong>{name}</strong> sustains the highest rate, "
        f"{least(first)}{short(first.value or 0.0, first.unit)}"
    )
    ours = figure_of(summary, OURS, question, RATE)
    if ours is None or ours.value is None:
        return f"{told}."
    rest = []
    for each in relations:
        if each.question == question and each.what is RATE and each.times is not None:
            rest.append(f"{multiple(each.times)} {escape(each.theirs.system)}{each.undecided}")
    if not rest:
        return f"{told}."
    stands = "that is" if first is ours else f"{OURS} sustains {short(ours.value, ours.unit)}:"
    return f"{told}{',' if first is ours else '.'} {stands} {', '.join(rest)}."


def _grid(summary: Summary, several: bool) -> str:
    names = measured(summary)
    rows = [
        (
            f"<em>{escape(question)}</em>",
            *(_cell(summary, name, question) for name in names),
        )
        for question in questions_of(summary)
    ]
    head = ("question", *(escape(label(summary, name, several)) for name in names))
    return table(head, rows) + (
        "<p class=soft>Events a second sustained, in bold the highest rate and what is not told "
        "apart from it; below it the p99 of the age of results and the "
        "processor seconds per million events, at the load of the latency runs; below that what "
        "this run has shown of guarantees: every row once though a worker was killed, a key's "
        "events in order, state in a checkpoint. &#10003; shown, &#10007; the contrary was seen, "
        "? not asked for.</p>"
    )


def _cell(summary: Summary, system: str, question: str) -> str:
    rate = figure_of(summary, system, question, RATE)
    if system in refusing(summary, question):
        assert rate is not None
        return _void(rate)
    lines = []
    if rate is not None:
        said = _void(rate) if rate.value is None else f"{least(rate)}{counted(rate.value)}/s"
        first = best(summary, question, RATE)
        lines.append(f"<strong>{said}</strong>" if leads(rate, first) else said)
    small = []
    for what, unit in ((LATENCY, "s"), (CPU, "s CPU/M")):
        figure = figure_of(summary, system, question, what)
        if figure is not None and figure.value is not None:
            small.append(f"{'p99 ' if what is LATENCY else ''}{figure.value:,.3g} {unit}")
        elif figure is not None and rate is None:
            small.append(_void(figure))
    if small:
        lines.append(f"<small>{', '.join(small)}</small>")
    return "<br>".join([*lines, marks(summary, system)])


def _void(figure: Figure) -> str:
    if figure.void.startswith(REFUSED):
        return f'<span class="soft" title="{escape(figure.void)}">refused</span>'
    return f'<span class="bad" title="{escape(figure.void)}">void</span>'


def marks(summary: Summary, system: str) -> str:
    """Give what was shown of a system's guarantees, a word and a sign each."""
    found = []
    for each in guarantees_of(summary, system):
        word = next((s for begin, s in _SHORT if each.name.startswith(begin)), each.name)
        kind, sign = _SIGNS[each.shown]
        told = escape(f"{each.name}: {each.shown.value}. {each.evidence}")
        found.append(f'<span class="{kind}" title="{told}">{escape(word)}&nbsp;{sign}</span>')
    return f"<small class=marks>{' '.join(found)}</small>" if found else ""


def _lost(relations: tuple[Compared, ...]) -> list[str]:
    """Name what we lose, and why; nothing where we lose nothing."""
    found = lost(relations)
    if not found:
        return []
    rows = []
    for each, why in found:
        ours, theirs = each.ours, each.theirs
        rows.append((
            f"<em>{escape(each.question)}</em>", escape(each.what.title),
            f"{short(ours.value or 0.0, ours.unit)}",
            f"{escape(theirs.system)} {short(theirs.value or 0.0, theirs.unit)}", escape(why),
        ))
    head = ("question", "figure", OURS, "ahead of it", "why")
    return [
        f"<details><summary>Where {OURS} is behind: {len(rows)} figures, with the reasons</summary>"
        + table(head, rows) + "</details>"
    ]


def _of_system(summary: Summary, name: str, several: bool) -> str:
    """Say whether the answers of a system were right."""
    told = escape(label(summary, name, several))
    own = [figure for figure in summary.voids if figure.system == name]
    refused = [figure for figure in own if figure.void.startswith(REFUSED)]
    voids = [figure for figure in own if figure not in refused]
    spikes = [
        "spike: came back" if figure.value else "spike: <span class=bad>did not come back</span>"
        for figure in summary.figures
        if figure.system == name and figure.experiment == "spike" and figure.name == "came back"
        and figure.value is not None
    ]
    if refused and len(own) == len([f for f in summary.figures if f.system == name]):
        return f"<p>{told}: cannot be asked any of this: {escape(_reasons(refused))}.</p>"
    state = (
        f'<span class="bad">{len(voids)} figures are void</span>: {escape(voids[0].void)}'
        if voids else '<span class="good">every answer was right</span>'
    )
    if refused:
        asked = ", ".join(dict.fromkeys(figure.question for figure in refused))
        state += f"; it cannot be asked {escape(asked)}: {escape(_reasons(refused))}"
    return f"<p>{told}: {'; '.join([*dict.fromkeys(spikes), state])}.</p>"


def _reasons(refused: Sequence[Figure]) -> str:
    reasons = dict.fromkeys(figure.void.removeprefix(REFUSED) for figure in refused)
    return " ".join(reasons).removesuffix(".")
