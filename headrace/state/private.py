"""Decides which folders may be used for what is decoded, and makes those that are ours alone.

State is decoded by coders that may unpickle, and by `marshal`: whoever can write a file of it can
run code as the user who reads it. So a folder is looked at before anything is read from it: whose
it is, and whom its mode lets in. `fault` decides, from the facts of a `stat`; the rest finds the
facts and acts. Uses the standard library alone; knows nothing of what lies in a folder.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
import uuid
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.errors import StateError

_LOG = logging.getLogger(__name__)

#: Set to 1, members of a checkpoint folder's group count as the pipeline's own user.
TRUST_GROUP = "HEADRACE_TRUST_GROUP"

_ROOT = 0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH


class Guard(Enum):
    """What must be kept from others."""

    PRIVATE = "private"  # they may not even enter: folders of ours among those of others
    PARENT = "parent"  # they may add to it, but not replace what another has put there
    UNWRITTEN = "unwritten"  # they may read, but not write: a folder that the user chose


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What `lstat` tells of a path."""

    owner: int
    group: int
    mode: int  # type and permissions
    device: int = 0  # the file system

    @classmethod
    def of(cls, found: os.stat_result) -> Facts:
        """Take what counts here."""
        return cls(
            owner=found.st_uid, group=found.st_gid, mode=found.st_mode, device=found.st_dev
        )

    @property
    def closed(self) -> bool:
        """Whether nobody but the owner can reach what lies below."""
        return not self.mode & _OTHERS_ENTER


def fault(facts: Facts, me: int, guard: Guard, group: int | None = None) -> str | None:
    """Say why a path is not safe to read from; None if it is.

    Root counts as safe wherever others do: it can do all that its reader can. It does not where the
    reader is root itself: then a foreign owner would run code as root.

    Args:
        facts: of the path itself, not of what a link leads to.
        me: the user who is going to read.
        guard: what must be kept from others.
        group: the members of this group are trusted like `me`.
    """
    if stat.S_ISLNK(facts.mode) and guard is Guard.PRIVATE:
        return "it is a symbolic link"
    ours = {me} if guard is Guard.PRIVATE else {me, _ROOT}
    if facts.owner not in ours and facts.group != group:
        return f"it belongs to user {facts.owner}, and this process runs as user {me}"
    if stat.S_ISLNK(facts.mode):
        return None  # its own mode means nothing
    if guard is not Guard.UNWRITTEN and not stat.S_ISDIR(facts.mode):
        return "it is not a folder"
    if guard is Guard.PRIVATE:
        forbidden, what = _OTHERS, "lets others in"
    elif guard is Guard.PARENT and facts.mode & stat.S_ISVTX:
        return None  # others may add, but not rename or remove
    else:
        forbidden, what = _OTHERS_WRITE, "lets others write"
    if facts.group == group:
        forbidden &= ~stat.S_IRWXG
    if facts.mode & forbidden:
        return f"its mode {stat.S_IMODE(facts.mode):04o} {what}"
    return None


def private_folder(path: Path) -> None:
    """Make a folder that is this user's alone, or see that it is; StateError says why it is not.

    Nobody can put another in its place afterwards: only its owner and root may rename it.

    Args:
        path: the folder. Its parent is made too if it is missing.
    """
    try:
        make_folder(path.parent)
        _see(path.parent, Guard.PARENT)
        with suppress(FileExistsError):
            os.mkdir(path, stat.S_IRWXU)
        _see(path, Guard.PRIVATE)
    except OSError as error:
        msg = (
            f"{path} cannot be used for copies of state: {error}. Nothing is lost: mend the "
            "folder, or name one by --state_dir that you can write to, and start again"
        )
        raise StateError(msg) from error


def make_folder(path: Path) -> None:
    """Make a folder for this user alone, if it is missing; what is above it is made for all."""
    if path.is_dir():
        return
    missing = [up for up in path.parents if not up.exists()]
    for up in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(up, 0o755)
    with suppress(FileExistsError):
        os.mkdir(path, stat.S_IRWXU)


def make_below(path: Path) -> None:
    """Make a folder, and what is missing above it, no more open than the folder it lies in."""
    if path.is_dir():
        return
    make_below(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path, os.stat(path.parent).st_mode & 0o777)


def open_unshared(path: str, flags: int) -> int:
    """Open a file as `open` does, but a new one can be written by its owner alone."""
    return os.open(path, flags, 0o644)


def lets_in(path: Path) -> bool:
    """Whether others than this user can enter a folder, or it is another's."""
    return fault(Facts.of(os.lstat(path)), os.geteuid(), Guard.PRIVATE) is not None


class Judge:
    """Says of paths whether they are safe, as `fault` does, and heeds odd file systems.

    A file that is made there tells. If it does not get the mode that was asked for, the file system
    keeps none (many network and foreign ones do not), its mount alone decides who may write, and a
    warning is all that can be given. If it gets another owner, then that is us over there.
    """

    def __init__(self, group: int | None = None) -> None:
        self._group = group  # trusted like this user
        self._samples: dict[int, Facts | None] = {}  # by device

    def fault(self, path: Path, facts: Facts, guard: Guard) -> str | None:
        """Say why a path is not safe to read from; None if it is."""
        me = os.geteuid()
        found = fault(facts, me, guard, self._group)
        if found is None or (guard is Guard.PRIVATE and stat.S_ISLNK(facts.mode)):
            return found
        made = self._sample(path if stat.S_ISDIR(facts.mode) else path.parent, facts.device)
        if made is None:
            return found
        if made.mode & _OTHERS:
            _warn_of_modes(str(path))
            return None
        return found if made.owner == me else fault(facts, made.owner, guard, self._group)

    def _sample(self, folder: Path, device: int) -> Facts | None:
        if device not in self._samples:
            made = _sample(folder)
            self._samples[device] = made if made is not None and made.device == device else None
        return self._samples[device]


def _see(path: Path, guard: Guard) -> None:
    """Refuse a folder that is not safe."""
    facts = Facts.of(os.stat(path) if guard is Guard.PARENT else os.lstat(path))
    found = Judge().fault(path, facts, guard)
    if found is not None:
        raise StateError(_refusal(path, found, guard))


def _sample(folder: Path) -> Facts | None:
    """Give the facts of a new file that only its owner may use; None: none can be made."""
    name = folder / f".headrace-{uuid.uuid4().hex}"
    try:
        # By its descriptor: a name could be given to another file meanwhile.
        made = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        return Facts.of(os.fstat(made))
    finally:
        os.close(made)
        with suppress(OSError):
            os.unlink(name)


@functools.lru_cache(maxsize=64)
def _warn_of_modes(path: str) -> None:
    _LOG.warning(
        "%s is on a file system that keeps no modes, so that headrace cannot tell who may write "
        "there. Whoever may can run code as this user: see to the options of its mount.", path,
    )


def _refusal(path: Path, reason: str, guard: Guard) -> str:
    if guard is Guard.PARENT:
        return (
            f"{path} is not safe for copies of state: {reason}, and they could replace what "
            "is in it. Name a folder by --state_dir that only you can write to; one that is "
            "missing is made so"
        )
    return (
        f"{path} is not safe for copies of state: {reason}. What lies there would be decoded, and "
        "could run code as this user; nothing of it was read. Remove it, or name another folder "
        "by --state_dir"
    )
