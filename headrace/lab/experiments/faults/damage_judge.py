"""Does one damage, starts the pipeline again, and says what became of it.

The right rows are those worked out from the input by `faults.oracle`.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.checkpoint.checks import check
from headrace.engine.checkpoint.reading import is_checkpoint
from headrace.errors import HeadraceError
from headrace.lab.experiments.faults.damage_cases import Case
from headrace.lab.experiments.faults.damage_kinds import NotHereError, Site
from headrace.lab.experiments.faults.damage_pipeline import (
    BRANCHES,
    Answer,
    Home,
    HungError,
    Material,
    run_to_end,
)
from headrace.state.files import Files

_COLUMNS = ["key", "start", "end", "count", "total", "mix"]
_REMEDY = re.compile(
    r"\b(restore|remove|bring|start|use|make room|delete|upgrade|give mode|write elsewhere|mend"
    r"|run the pipeline|put)\b", re.IGNORECASE,
)
#: Of an error's text so much is kept.
_TOLD_CHARACTERS = 700


class Fate(Enum):
    """What became of a run on a damaged checkpoint."""

    NAMED = "named"  # refused; the error names the file or folder and a way out
    HARMLESS = "harmless"  # ran, and every row is right
    OWN = "own rows"  # ran; only rows of the very file of output that was damaged are not right
    FOREIGN = "foreign error"  # refused, but by an error that says not where or not what to do
    WRONG = "WRONG"  # rows are lost or doubled
    HUNG = "hung"  # neither ended nor failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A case and what became of it."""

    case: Case
    outcome: Fate
    flagged: bool  # `headrace state verify` ended with 1 or 2
    told: str  # the error, or how the rows differ
    restored: str = ""  # what became of it once the damage was undone; empty: not tried
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Give plain data."""
        return {**asdict(self), "outcome": self.outcome.value}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Damaged:
        """Read what `to_json` gave."""
        return Damaged(
            **{**data, "case": Case(**data["case"]), "outcome": Fate(data["outcome"])}
        )


def judge(
    spark: Any, material: Material, case: Case, folder: Path, *, restore: bool
) -> Damaged | None:
    """Try one case in a fresh folder; None if this damage cannot be done to this path."""
    began = time.monotonic()
    base = material.base(case.base)
    home = base.copied_to(folder)
    site = Site(home.folder, case.path, material.older, random.Random(case.name))
    try:
        touched = case.damage(site)
    except NotHereError:
        return None
    flagged = _is_flagged(home)
    own = _own_rows(base, case)
    outcome, told = _tried(spark, material, home, case, own)
    restored = ""
    if restore and outcome in (Fate.NAMED, Fate.FOREIGN):
        for path in touched:
            _put_back(base.folder / path, home.folder / path)
        shutil.rmtree(home.state, ignore_errors=True)
        again, why = _tried(spark, material, home, case, own)
        restored = "right" if again is Fate.HARMLESS else f"{again.value}: {why}"
    return Damaged(
        case=case, outcome=outcome, flagged=flagged, told=_plain(told, home),
        restored=_plain(restored, home), seconds=round(time.monotonic() - began, 1),
    )


def _tried(
    spark: Any, material: Material, home: Home, case: Case, own: Answer
) -> tuple[Fate, str]:
    wanted = material.source.wanted
    try:
        run_to_end(spark, material.source, home)
    except HungError as error:
        return Fate.HUNG, str(error)
    except Exception as error:  # noqa: BLE001 (which one it is, is the question)
        text = str(error)
        named = isinstance(error, HeadraceError) and _names(text, home)
        whole = f"{type(error).__name__}: {text}"
        added = _more(_rows(home.output), wanted)
        if added.total() and not _is_own(case):
            return Fate.WRONG, f"{added.total()} rows too many, then {whole}"
        return (Fate.NAMED if named else Fate.FOREIGN), whole
    found = _rows(home.output)
    lost, added = _more(wanted, found), _more(found, wanted)
    if not lost and not added:
        return Fate.HARMLESS, ""
    told = f"{lost.total()} rows lost, {added.total()} too many"
    mine = Counter({(b, row): n for b, rows in own.items() for row, n in rows.items()})
    if _is_own(case) and lost <= mine and added.total() <= mine.total():
        return Fate.OWN, told
    return Fate.WRONG, told


def _names(text: str, home: Home) -> bool:
    """Whether an error says where to look, in the checkpoint or the output, and what to do."""
    return str(home.folder) in text and _REMEDY.search(text) is not None


def _is_own(case: Case) -> bool:
    return case.path.startswith("output") and "_headrace" not in case.path


def _own_rows(base: Home, case: Case) -> Answer:
    """Give the rows of the damaged file of output, and of those it may be exchanged with."""
    if not _is_own(case):
        return {}
    branch = case.path.split("/")[1]
    place = base.folder / case.path
    folder = place if place.is_dir() else place.parent
    return {branch: _of_folder(folder)}


def _more(one: Answer, other: Answer) -> Counter[Any]:
    """Give the rows that one answer has more of, each with its branch."""
    return Counter({
        (branch, row): n for branch in BRANCHES
        for row, n in (one[branch] - other[branch]).items()
    })


def _rows(output: Path) -> Answer:
    answer: Answer = {}
    for branch in BRANCHES:
        answer[branch] = Counter()
        for folder in sorted((output / branch).glob("epoch=*")):
            answer[branch] += _of_folder(folder)
    return answer


def _of_folder(folder: Path) -> Counter[Any]:
    """Give the rows of an epoch's folder; a file that cannot be read has none."""
    found: Counter[Any] = Counter()
    for path in sorted(folder.glob("[!._]*.parquet")):
        try:
            table = pq.read_table(path, columns=_COLUMNS, partitioning=None)
        except (pa.ArrowException, OSError):
            continue
        found.update(zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True))
    return found


def _is_flagged(home: Home) -> bool:
    """Whether a check of the whole checkpoint says that something is wrong."""
    try:
        files = Files(str(home.checkpoint))
        return not is_checkpoint(files) or bool(check(files).problems)
    except Exception:  # noqa: BLE001 (a traceback tells nobody that the folder is good)
        return True


def _put_back(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _plain(text: str, home: Home) -> str:
    """Give a text without the folders of this run, and not too long."""
    short = text.replace(str(home.folder), "HOME").replace(str(home.folder.parent), "WORK")
    return short[:_TOLD_CHARACTERS]
