"""Where the local copies of a state partition lie: one folder for each generation.

Decides which copy may be opened at all: the newest, if the same run of the driver has begun it.
Gives a new, empty folder otherwise, and takes the older ones away. Knows nothing of what is in
them: a copy that another run left behind is never looked into.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "g"
_DISCARDED = ".discarded-"


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """One copy of a state partition on this machine."""

    number: int  # the newest has the greatest
    run: str  # names the driver's run that began it

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{_PREFIX}{self.number}-{self.run}" if self.run else f"{_PREFIX}{self.number}"


def generations(folder: Path) -> list[Generation]:
    """Give all copies of a state partition, in no order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        number, _, run = name.removeprefix(_PREFIX).partition("-")
        if name.startswith(_PREFIX) and number.isdecimal():
            found.append(Generation(int(number), run))
    return found


def newest_of(folder: Path, run: str) -> Generation | None:
    """Give the newest copy of a state partition; None if there is none of this run.

    Between two runs a disk, a program or a hand may have changed a copy, and LMDB reads a damaged
    page as it is: the answer may be wrong, or the process may die. So what an earlier run left is
    not opened, and costs one restore for each state partition and start.
    """
    newest = max(generations(folder), default=None)
    return newest if newest is not None and newest.run == run else None


def begin(folder: Path, run: str) -> Generation:
    """Make the folder of a new generation and take the older ones away.

    Another process may still have an older one open. It loses nothing: a folder is first moved
    aside, so that nobody opens it half deleted, and open files outlive their names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older = generations(folder)
    new = Generation(max((found.number for found in older), default=0) + 1, run)
    with suppress(FileExistsError):  # another process was as quick: share its generation
        (folder / new.name).mkdir()
    for found in older:
        with suppress(OSError):
            (folder / found.name).rename(folder / f"{_DISCARDED}{uuid.uuid4().hex}")
    for left in folder.glob(f"{_DISCARDED}*"):
        _remove(left)
    return new


def _remove(left: Path) -> None:
    with suppress(OSError):
        if not left.is_dir() or left.is_symlink():
            left.unlink()
            return
        left.chmod(0o700)  # its rights may be what was wrong with it
    shutil.rmtree(left, ignore_errors=True)
