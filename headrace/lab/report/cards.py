"""The guarantee card and the chosen settings: what a run has shown, and what it was told to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from headrace.lab.report.tables import label, table
from headrace.lab.results.summary import Shown, Summary

_CLASSES = {Shown.YES: "good", Shown.NO: "bad", Shown.OPEN: "soft"}


def cards(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give the guarantee card as HTML; nothing if no run has one."""
    rows = [
        (
            escape(label(summary, each.system, several)), escape(each.name),
            f'<span class="{_CLASSES[each.shown]}">{each.shown.value}</span>',
            escape(each.evidence),
        )
        for summary in summaries
        for each in summary.guarantees
    ]
    if not rows:
        return []
    return [
        "<h2>Guarantees, as this run has shown them</h2><p class=soft>What no run has asked for is "
        "not shown, whatever a system promises.</p>"
        + table(("system", "guarantee", "shown", "by what"), rows)
    ]


def choices(summaries: Sequence[Summary], several: bool) -> list[str]:
    """Give the settings that were tried and chosen as HTML; nothing if none were."""
    rows = []
    for summary in summaries:
        for system in summary.systems:
            for tuned in system.tuned:
                name = escape(label(summary, system.name, several))
                for tried in tuned.tried:
                    is_chosen = tuned.rate > 0 and tried["settings"] == tuned.chosen
                    told = escape(settings_text(tried["settings"]))
                    rows.append((
                        name, escape(tuned.question),
                        f"<strong>{told}, chosen</strong>" if is_chosen else told,
                        f"{tuned.p99_seconds:g} s", escape(tried["said"]),
                        f"{tried['rate']:,.0f} events/s" if tried["rate"] else "no higher",
                    ))
    if not rows:
        return []
    head = ("system", "question", "settings", "bound on p99", "why it went no higher", "rate")
    return [
        "<h2>Settings that were tried</h2><p class=soft>Each is tried a step above the best before "
        "it: &ldquo;no higher&rdquo; is one that did not keep up there.</p>" + table(head, rows, 1)
    ]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Write settings in a line.

    >>> settings_text({"shards": 4, "per_batch": 100000}), settings_text({})
    ('shards = 4, per_batch = 100000', 'as it is')
    """
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or "as it is"
