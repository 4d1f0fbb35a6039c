"""The sweeps as a table: a row for each value of a setting, with what it did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from headrace.lab.report.tables import label, table
from headrace.lab.results.summary import Figure, Summary

_SWEEP = "sweep"
_NAME = re.compile(r"(?P<what>.+) at (?P<where>\w+ = -?\d+)")
_COLUMNS = ("median", "p99", "cpu")


def sweeps(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give the sweeps as HTML with the place of their plot; nothing if no run has one."""
    found: dict[tuple[str, str, str], dict[str, Figure]] = {}
    for summary in summaries:
        for figure in summary.figures:
            told = _NAME.fullmatch(figure.name)
            if figure.experiment == _SWEEP and told is not None:
                place = (label(summary, figure.system, several), figure.question, told["where"])
                found.setdefault(place, {})[told["what"]] = figure
    if not found:
        return []
    rows = [
        (*map(escape, place), *(_cell(told.get(column)) for column in _COLUMNS))
        for place, told in found.items()
    ]
    head = (
        "system", "question", "setting", "median, s", "p99, s", "processor, s per million events"
    )
    return [
        "<h2>Settings swept</h2><p class=soft>One setting changed, at one rate; all else is the "
        "same.</p><div class=plots><figure><figcaption>p99 by setting</figcaption>"
        '<div id="sweep"></div></figure></div>' + table(head, rows, 3)
    ]


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return f'<span class="bad">void</span> {escape(figure.void)}'
    return f"{figure.value:,.4g}"
