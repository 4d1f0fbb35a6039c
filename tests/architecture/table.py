"""Decides what the import table of docs/architecture.md says about one module.

Takes the text of the page, gives a `Table` of `Rule`s. Knows nothing of the package's files: who
imports what is found in `imports.py`, and the two meet in the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEADER = ("room", "may import (ours)", "may import (outside)", "never, not even through others")
OPEN_TO_ALL = "errors"
NOTHING = "nothing"


class TableError(Exception):
    """The page holds no table, or one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row: what one room may import."""

    room: str  # dotted, below `headrace`; "headrace" is the package's own __init__.py
    ours: tuple[str, ...]  # rooms or single modules, dotted, below `headrace`
    outside: tuple[str, ...]  # distributions' top-level names; the standard library is always open
    never: tuple[str, ...]  # rooms or outside names that may not be reached at any distance

    def allows_ours(self, module: str) -> bool:
        """Whether a module of this room may import `module` (dotted, below `headrace`)."""
        return any(covers(name, module) for name in (self.room, OPEN_TO_ALL, *self.ours))

    def allows_outside(self, name: str) -> bool:
        """Whether a module of this room may import the outside package `name` (top level)."""
        return name in self.outside

    def forbids(self, module: str) -> bool:
        """Whether `module` (a room below `headrace`, or an outside name) is never to be reached."""
        return any(covers(name, module) for name in self.never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All rows of the page, in its order."""

    rules: tuple[Rule, ...]

    def rule_for(self, module: str) -> Rule | None:
        """The most exact row that covers `module`, or None when no row speaks of it."""
        rows = [rule for rule in self.rules if covers(rule.room, module)]
        return max(rows, key=lambda rule: len(rule.room), default=None)


def covers(name: str, module: str) -> bool:
    """Whether `module` is `name` itself or lies inside it."""
    return module == name or module.startswith(name + ".")


def read_table(page: str) -> Table:
    """Find the one table with our header in a Markdown page and read its rows."""
    lines = page.splitlines()
    starts = [at for at, line in enumerate(lines) if _cells(line) == HEADER]
    if len(starts) != 1:
        message = f"expected one table headed {HEADER}, found {len(starts)}"
        raise TableError(message)
    rules: list[Rule] = []
    for line in lines[starts[0] + 2 :]:
        cells = _cells(line)
        if not cells:
            break
        if len(cells) != len(HEADER):
            message = f"a row has {len(cells)} cells, not {len(HEADER)}: {line}"
            raise TableError(message)
        room, ours, outside, never = cells
        for name in _names(room):
            rules.append(
                Rule(room=name, ours=_names(ours), outside=_names(outside), never=_names(never))
            )
    rooms = [rule.room for rule in rules]
    twice = sorted({room for room in rooms if rooms.count(room) > 1})
    if twice:
        message = f"rooms with two rows: {', '.join(twice)}"
        raise TableError(message)
    return Table(rules=tuple(rules))


def _cells(line: str) -> tuple[str, ...]:
    if not line.startswith("|"):
        return ()
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def _names(cell: str) -> tuple[str, ...]:
    """The names in a cell; every one stands in backquotes, so that prose cannot pass as a name."""
    if cell == NOTHING:
        return ()
    names = tuple(re.findall(r"`([^`]+)`", cell))
    rest = re.sub(r"`[^`]+`", "", cell).replace(",", "").strip()
    if rest or not names:
        message = f"a cell is {NOTHING!r} or names in backquotes with commas, not: {cell!r}"
        raise TableError(message)
    return names
