"""The causal profile as a table: what a faster step would give, and what it really gave."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headrace.lab.report.tables import label, table
from headrace.lab.results.summary import Figure, Summary

_CAUSAL = "causal"


def faster_steps(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give the profile as HTML, the step that gives most first; nothing if no run has one."""
    found: dict[tuple[str, str, str], dict[str, Figure]] = {}
    for summary in summaries:
        for figure in summary.figures:
            if figure.experiment == _CAUSAL:
                step, _, what = figure.name.rpartition(", ")
                place = (label(summary, figure.system, several), figure.question, step)
                found.setdefault(place, {})[what] = figure
    if not found:
        return []
    rows = [
        (
            escape(system), escape(question), escape(step or "the profile"),
            _gain(told.get("predicted") or told.get("gain")),
            _gain(told.get("rerun")) or "not made",
        )
        for (system, question, step), told in sorted(found.items(), key=_most_first)
    ]
    head = ("system", "question", "were it so", "predicted gain of the rate", "rerun")
    return [
        "<h2>What a faster step would give</h2><p class=soft>Predicted by slowing all other steps; "
        "the rerun had the step really faster, where its cost is set. In brackets what the "
        "precision of the searches leaves open.</p>" + table(head, rows, 2)
    ]


def _most_first(
    item: tuple[tuple[str, str, str], dict[str, Figure]]
) -> tuple[str, str, float]:
    (system, question, _), told = item
    predicted = told.get("predicted")
    value = None if predicted is None else predicted.value
    return system, question, 0.0 if value is None else -value


def _gain(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return f'<span class="bad">void</span> {escape(figure.void)}'
    if figure.low is None or figure.high is None:
        return f"{figure.value:+.0%}"
    return f"{figure.value:+.0%} [{figure.low:+.0%}, {figure.high:+.0%}]"
