"""Looks over a checkpoint folder on a local disk before anything of it is decoded.

Whoever can write to a checkpoint can run code as the pipeline's user. So all that lies in it must
be this user's, and others must not be able to write to it. What is decided of a single path,
`private` decides; this module walks through the folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headrace.errors import CheckpointError
from headrace.state.private import TRUST_GROUP, Facts, Guard, Judge, make_folder

#: Files that are read for messages only, never decoded; the lock is written by whoever tries.
_NOT_DECODED = frozenset({"lock"})
#: Spark's own logs. Spark makes them as open as the umask lets it, so nobody else may enter.
_SPARK = "spark"


def check_trusted(path: Path) -> None:
    """Refuse a checkpoint that others could have written to; make one that is missing.

    After this nobody else can change it, as long as its owner does not let them.

    Raises:
        CheckpointError: names the file or folder, whose it is or whom it lets write, and a remedy.
    """
    make_folder(path)
    trusts_group = os.environ.get(TRUST_GROUP) == "1"
    judge, me = Judge(os.stat(path).st_gid if trusts_group else None), os.geteuid()
    for entry, found, reachable in _entries(str(path)):
        if found.st_uid == me and not found.st_mode & 0o022:
            continue  # as nearly all are
        facts = Facts.of(found)
        # Whose a thing is always counts: it may have come before the folder was closed.
        seen = facts if reachable else replace(facts, mode=facts.mode & ~0o077)
        reason = judge.fault(Path(entry), seen, Guard.UNWRITTEN)
        if reason is not None:
            raise CheckpointError(_refusal(str(path), entry, reason))
    if not trusts_group:
        spark = path / _SPARK
        make_folder(spark)
        with suppress(OSError):  # a folder of root's, or a file system without modes
            os.chmod(spark, stat.S_IRWXU)


def _entries(top: str) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Give all that is at and below a path, links as well as what they lead to.

    With each comes whether others can reach it at all, through the folders on the way.
    """
    met: set[tuple[int, int]] = set()
    ahead = [(top, True)]
    while ahead:
        path, reachable = ahead.pop()
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                yield path, found, reachable
                found = os.stat(path)
                reachable = True  # on a way that was not looked at
        except FileNotFoundError:
            continue  # a driver that is still running tidies up; or a link to nowhere
        yield path, found, reachable
        if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) in met:
            continue
        met.add((found.st_dev, found.st_ino))
        inner = reachable and not Facts.of(found).closed
        skip = _NOT_DECODED if path == top else frozenset()
        with suppress(FileNotFoundError):  # as above
            ahead += [(f"{path}/{name}", inner) for name in os.listdir(path) if name not in skip]


def _refusal(checkpoint: str, path: str, reason: str) -> str:
    what = "it" if path == checkpoint else path
    return (
        f"checkpoint {checkpoint} is not safe to read, because of {what}: {reason}. State may be "
        "unpickled, so whoever can write there could run code as this user; nothing of it was "
        f"read. If only people you trust could write there, `chmod -R go-w {checkpoint}` mends the "
        f"mode, and `chown -R` or running as its owner the rest; {TRUST_GROUP}=1 trusts its whole "
        "group. Else name a folder that is missing yet: it is made for you alone"
    )
