"""Which damages are tried: every file and folder of a checkpoint, every kind, drawn from a seed.

Takes the bases, gives cases in an order in which any first part is spread over all of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.lab.experiments.faults.damage_kinds import (
    FILE_KINDS,
    FOLDER_KINDS,
    LOG_KINDS,
    NO_CRC,
    Damage,
    part_of,
)

#: Folders that are damaged as a whole.
FOLDERS = (
    "checkpoint", "checkpoint/manifests", "checkpoint/state", "checkpoint/state/1-0",
    "checkpoint/incarnations", "checkpoint/spark",
    *(f"checkpoint/spark/{n}{below}" for n in (0, 1)
      for below in ("", "/offsets", "/commits", "/sources")),
)
#: Parts whose damage depends on where in the commit of an epoch the run had ended.
_GAP_PARTS = ("spark ", "manifests", "output, ", "checkpoint/spark", "checkpoint/manifests")
_GAP_KINDS = (
    "deleted", "deleted" + NO_CRC, "older version" + NO_CRC, "swapped with sibling",
    "cut to zero" + NO_CRC, "digit changed" + NO_CRC, "copied to next number",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One damage to one path."""

    base: str  # where in the commit the run had ended
    part: str
    path: str  # below the home
    kind: str
    seed: int

    @property
    def name(self) -> str:
        """Names the case, for people and for going on."""
        return f"{self.base}: {self.path}: {self.kind} ({self.seed})"

    @property
    def damage(self) -> Damage:
        """What is done."""
        return (FILE_KINDS | LOG_KINDS | FOLDER_KINDS)[self.kind] if not self.is_folder else (
            LOG_KINDS[self.kind]
        )

    @property
    def is_folder(self) -> bool:
        """Whether a whole folder is damaged."""
        return self.part.endswith("/")


def all_cases(bases: dict[str, Path], seed: int, rounds: int) -> Iterator[Case]:
    """Give the cases: from each (base, part, kind) one, then from each another one, and so on.

    What a checksum of Hadoop's tells at once, or nobody reads any more, comes last in each round.
    """
    drawn = random.Random(seed)
    strata: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for base, home in sorted(bases.items()):
        for path, kinds in _targets(home):
            part = part_of(home, path)
            if base != "rest":
                kinds = [kind for kind in kinds if _tells_of_the_gap(part, kind)]
            for kind in kinds:
                made = Case(base=base, part=part, path=path, kind=kind, seed=seed)
                strata[base, part, kind].append(made)
    for cases in strata.values():
        drawn.shuffle(cases)
    keys = sorted(strata)
    for turn in range(rounds):
        drawn.shuffle(keys)
        keys.sort(key=_tier)
        for key in keys:
            cases = strata[key]
            chosen = cases[turn % len(cases)]
            if turn < len(cases) or key[2].startswith(_RANDOM):
                yield Case(
                    base=chosen.base, part=chosen.part, path=chosen.path, kind=chosen.kind,
                    seed=seed * 1_000 + turn,
                )


_WHOLE_KINDS = ("deleted", "older version")
_MARK_KINDS = ("bit flipped", "cut to zero", "deleted", "older version", "swapped with sibling")
#: Kinds that do something else with another seed.
_RANDOM = ("bit flipped", "digit changed", "older version", "swapped")


def _tier(key: tuple[str, str, str]) -> int:
    base, part, kind = key
    if base != "rest":
        return 1
    if part.endswith("/") or part == "output, note":
        return 0
    if "older" in part or "not needed" in part or part.endswith((".crc", "mark of the note")):
        return 2
    is_log = part.startswith("spark ")
    return int((is_log and not kind.endswith(NO_CRC) and kind != "copied to next number")
               or part in ("lock", "incarnations, newest"))


def _tells_of_the_gap(part: str, kind: str) -> bool:
    """Whether it matters for a damage where in the commit the run had ended."""
    if part.endswith("/"):
        return part.startswith(_GAP_PARTS)
    whole = part.startswith(_GAP_PARTS) and part.endswith(("newest", "of an epoch"))
    return whole and kind in _GAP_KINDS


def _kinds_for(path: Path) -> Sequence[str]:
    """Give the kinds for a file; of those that hold nothing but a checksum or a mark, a few."""
    is_mark = path.name.endswith((".crc", "_SUCCESS"))
    return _MARK_KINDS if is_mark else tuple(FILE_KINDS)


def _targets(home: Path) -> Iterator[tuple[str, Sequence[str]]]:
    below: Callable[[Path], str] = lambda path: str(path.relative_to(home))  # noqa: E731
    for path in sorted(home.rglob("*")):
        if path.is_file():
            yield below(path), _kinds_for(path)
    for folder in FOLDERS:
        if (home / folder).is_dir():
            is_log = folder in ("checkpoint/spark/0", "checkpoint/spark/1")
            is_unit = folder == "checkpoint/state/1-0"
            kinds = LOG_KINDS if is_log else FOLDER_KINDS if is_unit else _WHOLE_KINDS
            yield folder, tuple(kinds)
    for pattern in ("*/_headrace", "*/epoch=*"):
        for path in sorted((home / "output").glob(pattern)):
            yield below(path), _WHOLE_KINDS
