"""Tables of HTML, and what a system is called in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lab.results.summary import Summary


def label(summary: Summary, system: str, several: bool) -> str:
    """Give the name of a system, with its run's if there are several."""
    return f"{summary.name}: {system}" if several else system


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Make a table of HTML cells; the last `numbers` columns are figures."""
    first = len(head) - numbers

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=n' if place >= first else ''}>{cell}</{tag}>"
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    inside = f"<thead>{line(head, 'th')}</thead><tbody>{body}</tbody>"
    return f"<div class=scroll><table>{inside}</table></div>"


