"""Where a machine keeps its copies of the state.

Every user has a folder of their own, in it every start of the machine one, in it every checkpoint
one. All of it is found on the machine that uses it: user, start and temporary folder may be others
than the driver's. Notes say whose a copy is, so that `copies` can be tidied up.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import StateError
from headrace.state import memory_copies
from headrace.state.machine import Machine, this_machine
from headrace.state.private import private_folder

#: Beside the copies of a checkpoint's state partitions: which checkpoint it is.
NOTE = "checkpoint.json"
#: In a folder's name: stands for the executor, where several share a machine.
EXECUTOR = "{executor}"

_BOOT_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFolder:
    """Says where the copies of one checkpoint's state partitions lie, on any machine."""

    state_dir: str  # what was asked for; empty: the folder for temporary files; `memory:`: none
    checkpoint: str  # its path or URI

    def base(self, executor: str) -> Path:
        """Give this user's folder on this machine; links are followed once and for all."""
        return base_of(self.state_dir.replace(EXECUTOR, executor))

    def folder(self, executor: str) -> Path:
        """Give the folder of the copies on this machine.

        Stores are not synced to the disk, so what was written before the machine was started anew
        must not be used.
        """
        token = uuid.uuid5(uuid.NAMESPACE_URL, self.checkpoint).hex[:16]
        return self.base(executor) / _boot_folder(this_machine()) / token

    def bases(self) -> list[Path]:
        """Give this user's folders on this machine that are there, those of all executors."""
        root = self.state_dir or tempfile.gettempdir()
        if memory_copies.is_memory(root):
            return []
        if EXECUTOR not in root:
            found = [root]
        else:
            found = glob.glob("*".join(map(glob.escape, root.split(EXECUTOR))))
        return [base for base in map(base_of, sorted(found)) if base.is_dir()]

    def remove(self) -> None:
        """Remove the copies from this machine."""
        if memory_copies.is_memory(self.state_dir):
            memory_copies.forget(self._in_memory())
            return
        folder = self.folder("")
        for base in self.bases():
            shutil.rmtree(base / folder.parent.name / folder.name, ignore_errors=True)

    def open(self, executor: str) -> Path:
        """Make the folder of the copies, or see that nobody else can have written to it.

        Raises:
            StateError: it is another's or lets others in; nothing of it was read.
        """
        if memory_copies.is_memory(self.state_dir):
            return self._in_memory()
        known = _opened.get((self, executor))
        # Only this user can have changed what lies in a base that is still the same.
        if known is not None and _is(known[0], known[1]) and known[2].is_dir():
            return known[2]
        folder = self.folder(executor)
        base = folder.parent.parent
        for path in (base, folder.parent, folder):
            private_folder(path)
        try:
            self._note(folder)
        except OSError as error:
            msg = (
                f"the local copy of state in {folder} cannot be used: {error}. Nothing is lost: "
                "make room or mend the folder (--state_dir), and start the pipeline again"
            )
            raise StateError(msg) from error
        _opened[self, executor] = (base, _state(base), folder)
        return folder

    def _in_memory(self) -> Path:
        return Path(self.state_dir) / uuid.uuid5(uuid.NAMESPACE_URL, self.checkpoint).hex[:16]

    def _note(self, folder: Path) -> None:
        if not (folder / NOTE).exists():
            here = this_machine()
            note = {"checkpoint": self.checkpoint, "host": here.host, "boot": here.boot}
            unfinished = folder / f".writing-{uuid.uuid4().hex}"
            unfinished.write_text(json.dumps(note), encoding="utf-8")
            unfinished.rename(folder / NOTE)


#: What this process has opened: this user's folder, how it was then, the folder of the copies.
_opened: dict[tuple[LocalFolder, str], tuple[Path, tuple[int, ...], Path]] = {}


def _state(folder: Path) -> tuple[int, ...]:
    found = os.lstat(folder)
    return found.st_dev, found.st_ino, found.st_uid, found.st_mode, os.geteuid()


def _is(folder: Path, state: tuple[int, ...]) -> bool:
    try:
        return _state(folder) == state
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copies of one checkpoint's state partitions, as they are found on a disk."""

    folder: Path
    checkpoint: str = ""  # empty: nothing says so
    machine: Machine | None = None  # where they were made; None: nothing says so


def base_of(state_dir: str) -> Path:
    """Give this user's folder for copies below a folder, or below that for temporary files."""
    root = Path(os.path.realpath(state_dir or tempfile.gettempdir()))
    return root / f"headrace-state-{os.geteuid()}"


def copies(base: Path) -> Iterator[Copy]:
    """Give all copies in a user's folder, which must be private."""
    for folder in sorted(base.glob("*/*")):
        found = Copy(folder=folder)
        with suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            machine = Machine(host=str(note["host"]), boot=str(note["boot"]))
            found = Copy(folder=folder, checkpoint=str(note["checkpoint"]), machine=machine)
        yield found


def is_dead(copy: Copy, here: Machine, *, shared: bool) -> bool:
    """Whether nobody can use a copy any more. In doubt it stays; it is only a cache.

    Args:
        copy: what was found.
        here: the machine that looks.
        shared: other machines may have the same folder, so that a copy without a note is anyone's.
    """
    if copy.machine is None:
        return not shared and copy.folder.parent.name != _boot_folder(here)
    if copy.machine.host != here.host:
        return False
    return copy.machine.boot != here.boot or _is_gone(copy.checkpoint)


def sweep_copies(base: Path, *, shared: bool) -> int:
    """Remove the copies that nobody can use any more; give how many went."""
    count = 0
    for copy in copies(base):
        if is_dead(copy, this_machine(), shared=shared):
            shutil.rmtree(copy.folder, ignore_errors=True)
            count += 1
            with suppress(OSError):  # others may be in it
                copy.folder.parent.rmdir()
    return count


def _is_gone(checkpoint: str) -> bool:
    """Whether a checkpoint is certainly not there any more; that of another system never is."""
    return os.path.isabs(checkpoint) and not os.path.lexists(checkpoint)


def _boot_folder(machine: Machine) -> str:
    return machine.boot[:_BOOT_DIGITS]
