"""The search as HTML: every rate that was tried and what came of it, and latency against rate."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headrace.lab.report.compared import BY_RATE
from headrace.lab.report.tables import label, table
from headrace.lab.results.summary import Figure, Summary

_CLASSES = {"kept up": "good", "fell behind": "bad", "void": "bad", "estimated": "soft"}
_PLOTS = """<div class="plots">
<figure><figcaption>Rates that were tried<small>in their order: filled, it kept up; ring, it fell
behind; square, a ramp's estimate; cross, void</small></figcaption><div id="probes"></div></figure>
<figure><figcaption>Queue of a ramp<small>seconds of the load that wait in the queue, while its rate
grows</small></figcaption><div id="ramp-queue"></div></figure>
</div>"""
_BY_RATE = """<div class="plots one"><figure><figcaption>Latency against rate<small>both axes
logarithmic; whole lines the p99, dashed ones the p50</small></figcaption>
<div id="by-rate"></div></figure></div>"""

#: What was measured at each share.
_WHATS = ("rate", "p50", "p99")


def searched(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give the probes of searches; nothing if no run has kept them."""
    rows = [
        (
            escape(label(summary, each.system, several)), escape(each.question),
            escape(each.experiment) + (", confirmed" if each.is_confirmation else ""),
            f'<span class="{_CLASSES[each.status]}">{each.status}</span>', escape(each.reason),
            f"{each.rate:,.0f}",
        )
        for summary in summaries
        for each in summary.probes
    ]
    if not rows:
        return []
    head = ("system", "question", "experiment", "what came of it", "why", "events/s")
    return [
        "<h2>How the rate was searched</h2>" + _PLOTS
        + f"<details><summary>All {len(rows)} rates that were tried</summary>"
        + table(head, rows, 1) + "</details>"
    ]


def by_rate(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give latency against rate; nothing if no run has measured it."""
    found: dict[tuple[str, str, str], dict[str, Figure]] = {}
    for summary in summaries:
        for figure in summary.figures:
            if figure.experiment == BY_RATE:
                what, _, share = figure.name.partition(" at ")
                place = label(summary, figure.system, several), figure.question, share
                found.setdefault(place, {})[what] = figure
    if not found:
        return []
    rows = [
        (escape(system), escape(question), share, *(_cell(told[what]) for what in _WHATS))
        for (system, question, share), told in sorted(found.items(), key=_lowest_first)
    ]
    head = ("system", "question", "of the rate", "events/s", "p50", "p99")
    return [
        "<h2>Latency against rate</h2>" + _BY_RATE
        + f"<details><summary>The {len(rows)} loads as figures</summary>"
        + table(head, rows, 3) + "</details>"
    ]


def _lowest_first(
    item: tuple[tuple[str, str, str], dict[str, Figure]]
) -> tuple[str, str, float]:
    (system, question, share), _ = item
    return system, question, float(share.removesuffix("%"))


def _cell(figure: Figure) -> str:
    if figure.value is None:
        return f'<span class="bad" title="{escape(figure.void)}">void</span>'
    return f"{figure.value:,.0f}" if figure.unit == "events/s" else f"{figure.value:,.3g} s"
