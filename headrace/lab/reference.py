"""Reads and writes the reference answers that are shipped, and holds rows against them.

A reference is the oracle's answer at the default settings, to which at least two systems have
agreed. It judges by a digest, so it needs neither the log nor the packages of the oracle. Runs
nothing: `headrace lab run reference` makes the files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from headrace.lab.workload import Mode, Row, Rule, Workload

#: Where the files are: SUITE/NAME.json.
HOME: Traversable = files("headrace.lab.answers")
#: An answer of so many rows is kept whole; of a larger one only some rows are, to be looked at.
WHOLE, SOME = 200, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A run that gave the answer of the oracle."""

    system: str
    mode: Mode
    engine: str  # what really ran, with its version


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A run that does not stand behind an answer."""

    system: str
    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Whether rows are those of a reference."""

    rows: int  # of the run, after the rule
    expected: int  # of the reference, after the rule
    same: bool

    def line(self) -> str:
        """Say it."""
        if not self.same:
            return (
                f"WRONG: {self.rows:,} rows, the shipped reference has {self.expected:,} and "
                "another digest"
            )
        if not self.expected:
            return "the shipped reference agrees, but it says little: it has no row"
        return f"the shipped reference agrees: {self.rows:,} rows with the same digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The answer to one workload at its default settings."""

    workload: str  # the full name
    settings: Mapping[str, str]  # all of them, as text
    events: int
    rows: int  # how many the answer has, after the workload's rule
    digest: str  # see `digest_of`
    shown: tuple[str, ...]  # the rows as lines of JSON, or the first of them
    agreed: tuple[Agreement, ...]
    left_out: tuple[Absence, ...]

    def __post_init__(self) -> None:
        kept = self.rows if self.rows <= WHOLE else SOME
        if len(self.shown) != kept:
            msg = f"{self.workload}: {len(self.shown)} rows are shown, {kept} should be"
            raise ValueError(msg)
        if self.rows <= WHOLE and _digest(self.shown) != self.digest:
            msg = f"{self.workload}: the rows of the reference are not those of its digest"
            raise ValueError(msg)

    def compare(self, rows: Iterable[Row], rule: Rule) -> Comparison:
        """Hold the rows of a run against the reference."""
        lines = lines_of(rows, rule)
        same = _digest(lines) == self.digest
        return Comparison(rows=len(lines), expected=self.rows, same=same)


def lines_of(rows: Iterable[Row], rule: Rule) -> list[str]:
    """Give what a rule leaves of an answer as lines of JSON without spaces, sorted as text.

    Numbers that are equal are written the same: 6.0 as 6.
    """
    counted = rule(rows)
    lines = [
        json.dumps([_plain(value) for value in row], separators=(",", ":"), ensure_ascii=False,
                   allow_nan=False)
        for row in counted.elements()
    ]
    return sorted(lines)


def digest_of(rows: Iterable[Row], rule: Rule) -> str:
    """Give the SHA-256 of an answer: of `lines_of`, each with its line end, in UTF-8."""
    return _digest(lines_of(rows, rule))


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(lines: Iterable[str]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def texts_of(settings: Any) -> dict[str, str]:
    """Write settings as the command line would be given them."""
    return {name: str(value) for name, value in dataclasses.asdict(settings).items()}


def reference_of(workload: Workload) -> Reference | None:
    """Read the reference answer of a workload; None if none is shipped.

    Raises:
        ValueError: the file is damaged; names the workload.
    """
    path = HOME / workload.suite / f"{workload.name}.json"
    if not path.is_file():
        return None
    return from_text(path.read_text(encoding="utf-8"), workload.full_name)


def reference_for(workload: Workload, settings: Any) -> Reference | None:
    """Read the reference answer of a workload if it was made with these settings, else None."""
    found = reference_of(workload)
    return found if found is not None and found.settings == texts_of(settings) else None


def to_text(reference: Reference) -> str:
    """Write a reference as JSON: a row, a setting, a run on a line of its own."""
    fields = []
    for field in dataclasses.fields(reference):
        value = getattr(reference, field.name)
        if isinstance(value, Mapping):
            parts = [f"{json.dumps(name)}: {json.dumps(text)}" for name, text in value.items()]
            fields.append((field.name, _block("{", parts, "}")))
        elif isinstance(value, tuple):
            parts = [one if isinstance(one, str) else _run_text(one) for one in value]
            fields.append((field.name, _block("[", parts, "]")))
        else:
            fields.append((field.name, json.dumps(value)))
    return _block("{", [f"{json.dumps(name)}: {text}" for name, text in fields], "}", 0) + "\n"


def _run_text(run: Agreement | Absence) -> str:
    return json.dumps(dataclasses.asdict(run) | {"mode": run.mode.value})


def _block(start: str, lines: list[str], end: str, depth: int = 1) -> str:
    if not lines:
        return start + end
    inner = "\n" + " " * (depth + 1)
    return start + inner + f",{inner}".join(lines) + "\n" + " " * depth + end


def from_text(text: str, name: str) -> Reference:
    """Read what `to_text` wrote.

    Raises:
        ValueError: it is no such text, or it contradicts itself; names the workload.
    """
    try:
        fields = json.loads(text)
        shown = (json.dumps(row, separators=(",", ":"), ensure_ascii=False)
                 for row in fields.pop("shown"))
        agreed = (Agreement(**run | {"mode": Mode(run["mode"])}) for run in fields.pop("agreed"))
        left = (Absence(**run | {"mode": Mode(run["mode"])}) for run in fields.pop("left_out"))
        return Reference(
            shown=tuple(shown), agreed=tuple(agreed), left_out=tuple(left), **fields
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"the reference answer of {name} cannot be used: {error}"
        raise ValueError(msg) from error
