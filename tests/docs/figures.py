"""Decides which figures a page publishes, and whether the reader is told where they come from.

Takes the text of a page, gives `Section`s: the part under one heading, its measured figures, the
files of `results/` that it names. A figure is a rate, a time, a share of time or speed, or a number
of faults; what is said to be a bound (at most, at least, or more) is none. Code is not looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.measured import numbers_in

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_SPAN = rf"{_NUMBER}(?:(?: to | and |, | / ){_NUMBER})*"
_THINGS = r"(?:events|elements|rows|records|tuples)"
#: What a measured number looks like.
_FIGURE = re.compile("|".join((
    rf"{_SPAN} ?[KMG]?B?(?: {_THINGS})?/s\b",
    rf"{_SPAN} ?[KM]? {_THINGS} (?:a|per) second",
    rf"{_SPAN} ?(?:ms|us|ns)\b",
    rf"{_SPAN} (?:micro|milli|nano)seconds?\b",
    r"\b\d+\.\d+ s\b",
    rf"{_SPAN} s of (?:CPU|processor)",
    rf"{_SPAN} times (?:as fast|as much|as long|the time|the speed|the state|faster)",
    r"\b(?:half|a third|a quarter|three quarters) (?:of )?the (?:processor )?time\b",
    r"\btwice as fast\b",
    rf"\b{_NUMBER}x\b",
    rf"{_NUMBER} (?:faults|damages|openings)\b",
    rf"\|\s*{_NUMBER} ?(?:s|MB|GB|K|M)\s*(?=\|)",  # a cell of a table
)))
_BOUND = re.compile(r"\b(?:at most|at least|or more|or less|no more than)\b")
_FILE = re.compile(r"results/[\w./-]*\w")
_CODE = re.compile(r"^```.*?^```|<!--.*?-->", re.M | re.S)
#: What a page says of figures that nobody can look up.
NOT_KEPT = re.compile(r"\bno\s+file\s+(?:of\s+(?:it|them|this|these)\s+)?is\s+kept\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of a page under one heading, without those below it."""

    heading: str  # empty: what stands before the first
    line: int  # of the heading
    figures: tuple[str, ...]
    files: tuple[str, ...]  # as they are named
    excused: bool  # says that no file is kept
    tables: tuple[tuple[str, str], ...]  # numbers in its tables, each with its unit

    @property
    def sourced(self) -> bool:
        """Whether a reader can look the figures up, or is told that he cannot."""
        return not self.figures or bool(self.files) or self.excused


def sections_of(page: str) -> list[Section]:
    """Cut a page at its headings."""
    text = _CODE.sub(lambda found: "\n" * found[0].count("\n"), page)
    found: list[Section] = []
    heading, start, lines = "", 1, list[str]()
    for number, line in enumerate([*text.splitlines(), "# "], start=1):
        if line.startswith("#"):
            found.append(_section(heading, start, lines))
            heading, start, lines = line.lstrip("# "), number, []
        else:
            lines.append(line)
    return found


def _section(heading: str, line: int, lines: list[str]) -> Section:
    text = "\n".join(lines)
    figures = [
        figure.strip("| ")
        for each in lines
        if not _BOUND.search(each)
        for figure in _FIGURE.findall(each)
    ]
    return Section(
        heading=heading, line=line, figures=tuple(figures), files=tuple(_FILE.findall(text)),
        excused=bool(NOT_KEPT.search(text)), tables=tuple(numbers_in(lines)),
    )
