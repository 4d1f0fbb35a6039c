"""Every published figure can be looked up in `results/`, or the page says that it cannot.

See `figures.py` for what a figure is. A section speaks for itself; a decision note and the changes
are one each, since what they tell is of one day.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.figures import Section, sections_of
from tests.docs.measured import Kept

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
#: Figures of living pages of which they say that no file is kept, at most.
MOST_EXCUSED = 52
#: Pages in which one sentence speaks for all figures.
WHOLE = ("CHANGELOG.md", "docs/decisions/")


def unsourced(name: str, page: str) -> list[Section]:
    sections = sections_of(page)
    if name.startswith(WHOLE) and any(each.files or each.excused for each in sections):
        return []
    return [each for each in sections if not each.sourced]


def test_every_published_figure_names_its_file_or_says_that_there_is_none() -> None:
    found = [
        f"{name}:{section.line} {section.heading!r}: {', '.join(section.figures[:5])}"
        for path in PAGES
        for name in [path.relative_to(ROOT).as_posix()]
        for section in unsourced(name, path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_file_of_results_that_a_page_names_is_there() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {file}"
        for path in PAGES
        for section in sections_of(path.read_text(encoding="utf-8"))
        for file in section.files
        if not (ROOT / file).exists()
    ]
    assert missing == []


def living() -> list[tuple[str, Section]]:
    """Give the sections of the pages that say how things are, not how they were on one day."""
    names = [(path, path.relative_to(ROOT).as_posix()) for path in PAGES]
    return [
        (f"{name}:{section.line} {section.heading!r}", section)
        for path, name in names if not name.startswith(WHOLE)
        for section in sections_of(path.read_text(encoding="utf-8"))
    ]


def test_no_more_figures_are_excused_than_were() -> None:
    """What no file is kept of cannot be looked up. The number may fall; then it is lowered here."""
    excused = {place: len(each.figures) for place, each in living() if each.excused}
    assert sum(excused.values()) <= MOST_EXCUSED, excused


def checked() -> list[tuple[str, Section, Kept]]:
    """Give the sections with tables, and the numbers of the files that they name."""
    return [
        (place, section, Kept([ROOT / file for file in section.files]))
        for place, section in living()
        if section.tables and section.files and not section.excused
    ]


def test_the_numbers_of_a_table_are_in_the_file_that_its_section_names() -> None:
    wrong = {
        place: missing
        for place, section, kept in checked()
        if (missing := [" ".join(each) for each in section.tables if not kept.has(*each)])
    }
    assert wrong == {}


def test_numbers_that_the_file_does_not_have_are_found() -> None:
    """Guards the finder: a thirtieth more, and most numbers with three digits are in no file."""
    numbers = [
        (number, unit, kept)
        for _, section, kept in checked() for number, unit in section.tables
        if len(re.sub(r"\D", "", number)) >= 3
    ]
    assert len(numbers) > 100
    found = 0
    for number, unit, kept in numbers:
        decimals = len(number.partition(".")[2])
        found += kept.has(f"{float(number.replace(',', '')) * 31 / 30:.{decimals}f}", unit)
    assert found < len(numbers) / 2


def test_a_number_is_rounded_as_its_table_has_it(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"rate": 230349.9, "cells": [{"seconds": 0.0764, "said": "after 12.5 s"}]}')
    kept = Kept([file])
    assert len(kept) == 3
    for number, unit in (("230.3", "K/s"), ("76", "ms"), ("0.08", "s"), ("12.5", "s")):
        assert kept.has(number, unit), number
    for number, unit in (("230.4", "K/s"), ("77", "ms"), ("230.3", "M/s"), ("230.3", "s")):
        assert not kept.has(number, unit), number
    table = "# A\n| 5 s | 230.3 K/s | 3.9x | 40 | 4,417 MiB |\n|---|---|---|---|---|\nand 9 ms\n"
    assert sections_of(table)[1].tables == (("230.3", "K/s"), ("4,417", "MiB"))


def test_the_pages_have_figures() -> None:
    """Guards the finder: were it blind, the others would pass."""
    pages = {path.name: sections_of(path.read_text(encoding="utf-8")) for path in PAGES}
    counted = {
        name: sum(len(each.figures) for each in sections) for name, sections in pages.items()
    }
    assert counted["workloads-table.md"] > 100 and counted["benchmarks-streaming.md"] > 15
    assert sum(counted.values()) > 250


@pytest.mark.parametrize(
    "text",
    [
        "It takes 214 K rows/s here.", "About 2 M tuples a second.", "76 / 124 / 156 ms", "0.7 us",
        "16.9 to 7.3 microseconds", "It took 1.4 s.", "3 times as fast", "of Spark 1.16x",
        "half the processor time", "256 faults in 15 rounds", "| a | 396 MB | b |", "| a | 69 s |",
    ],
)
def test_a_figure_without_a_file_is_found(text: str) -> None:
    (before, under) = sections_of(f"# Page\n\n{text}\n")
    assert before.sourced and len(under.figures) == 1 and not under.sourced


@pytest.mark.parametrize(
    "text",
    [
        "214 K rows/s (`results/2026-11-15-bench.json`)", "1.4 s; no file of it is kept",
        "76 ms. Of these figures no\nfile is kept.", "windows of 10 s", "--trigger_interval=0.5",
        "it takes 3 times as long or more: the bar", "at most 20 ms", "```\n214 K rows/s\n```",
        "16 MB of a buffer", "version 4.3", "2 cores",
    ],
)
def test_a_figure_with_a_file_and_what_is_none_is_let_through(text: str) -> None:
    assert all(section.sourced for section in sections_of(f"# Page\n\n{text}\n"))


def test_a_file_of_another_section_does_not_count() -> None:
    page = "# A\n1.4 s\n## B\n76 ms, results/a.json\n## C\n0.7 us\n"
    assert [section.heading for section in unsourced("docs/x.md", page)] == ["A", "C"]
    assert unsourced("docs/decisions/x.md", page) == []
