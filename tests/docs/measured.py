"""Decides whether a number in a table occurs in the files that its section names.

Takes the lines of a section and the files, gives the numbers that none of them has. A number is one
with a unit; counts, ratios and percentages are mostly computed from several, and not looked at. It
occurs if a number of a file, in the unit of the table or one that files are written in, is rounded
to it. So a table that was not made anew with its file is found, mostly, and a right one never.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Unit of a table -> how many of the units that files are written in it is.
UNITS = {
    "K/s": (1e3,), "M/s": (1e6,), "K": (1e3,), "M": (1e6,), "MiB": (2.0**20,), "MB": (1e6, 2.0**20),
    "GB": (1e9, 2.0**30), "s": (1.0,), "ms": (1.0, 1e-3), "us": (1.0, 1e-6), "minutes": (1.0, 60.0),
}
_CELL = re.compile(rf"(?<![\w.,:-])(\d[\d,]*(?:\.\d+)?)\s?({'|'.join(UNITS)})(?![\w/])")
_IN_TEXT = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def numbers_in(lines: list[str]) -> list[tuple[str, str]]:
    """Give the numbers of tables, each with its unit; the first column says what was measured."""
    rows = [line[1:].partition("|")[2] for line in lines if line.startswith("|")]
    return [found for row in rows for found in _CELL.findall(row)]


class Kept:
    """All numbers of some files of results.

    Args:
        paths: files of JSON or JSON lines, or folders of runs; others have no numbers.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._values = sorted({abs(value) for path in paths for value in _values_of(path)})

    def __len__(self) -> int:
        """How many different ones there are."""
        return len(self._values)

    def has(self, number: str, unit: str) -> bool:
        """Say whether one of them is rounded to a number of a table."""
        plain = number.replace(",", "")
        half = 0.5 * 10.0 ** -len(plain.partition(".")[2]) * (1 + 1e-6)
        return any(
            self._between((float(plain) - half) * times, (float(plain) + half) * times)
            for times in UNITS[unit]
        )

    def _between(self, low: float, high: float) -> bool:
        place = bisect_left(self._values, low)
        return place < len(self._values) and self._values[place] <= high


def _values_of(path: Path) -> Iterator[float]:
    file = path / "summary.json" if path.is_dir() else path
    if file.suffix not in (".json", ".jsonl"):
        return
    text = file.read_text(encoding="utf-8")
    for each in text.splitlines() if file.suffix == ".jsonl" else [text]:
        if each.strip():
            yield from _numbers(json.loads(each))


def _numbers(told: Any) -> Iterator[float]:
    if isinstance(told, bool):
        return
    if isinstance(told, int | float):
        yield float(told)
    elif isinstance(told, str):
        yield from map(float, _IN_TEXT.findall(told))
    elif isinstance(told, dict):
        for each in told.values():
            yield from _numbers(each)
    elif isinstance(told, list):
        for each in told:
            yield from _numbers(each)
