"""The local copy of a unit's state: an LMDB environment that can be thrown away.

Opens environments once per process, brings them to the version a chain names, grows them. What is
in them came from files that a manifest named; they are a cache, never the truth. Knows nothing
of an epoch's own writes.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from headrace.errors import StateError
from headrace.state.chain import Standing
from headrace.state.changelog import Rows

#: How much an environment may hold at first, in bytes; doubled when it is full. It is address
#: space, not disk space.
MAP_BYTES = 1 << 30
#: Errors that say the environment itself is of no use any more.
BROKEN = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
#: Elsewhere a file as large as the map may really take that space.
_WRITE_THROUGH_MAP = sys.platform == "linux"
#: Free space that must be left on the disk, in bytes.
RESERVE_BYTES = 16 << 20
_PAGE_BYTES = 4096
_STANDING = b"standing"
_GENERATION = "g"
_DISCARDED = ".discarded-"

T = TypeVar("T")


class Environment:
    """One open LMDB environment: the rows, and beside them how far they have come."""

    def __init__(self, folder: Path, map_bytes: int) -> None:
        self.folder = folder
        # No sync: a copy that an operating system's crash tears belongs to another boot. Writing
        # through the map makes a touched page cost a third, but a full disk would then kill the
        # process instead of raising an error: hence `_need_room`.
        self._env = lmdb.open(
            str(folder),
            map_size=map_bytes,
            max_dbs=2,
            sync=False,
            metasync=False,
            writemap=_WRITE_THROUGH_MAP,
        )
        self._rows = self._env.open_db(b"rows")
        self._about = self._env.open_db(b"about")
        self._identity = _identity(folder)
        self._reading: Any = None

    def is_there(self) -> bool:
        """Whether the folder still holds the very file that was opened."""
        return _identity(self.folder) == self._identity

    def close(self) -> None:
        """Close the environment and whatever still reads from it."""
        self.end_reading()
        self._env.close()

    def read(self) -> Any:
        """Begin to read: give the transaction. There is one reader at a time."""
        self.end_reading()
        self._reading = self._begin(write=False)
        return self._reading

    def end_reading(self) -> None:
        """End the reader, so that it pins no old pages."""
        if self._reading is not None:
            self._reading.abort()
            self._reading = None

    def forget_dead_readers(self) -> None:
        """Free the places of readers whose process has died: they would pin old pages."""
        self._env.reader_check()

    def standing(self, txn: Any) -> Standing | None:
        """Say how far the rows have come; None if nothing was ever applied."""
        data = txn.get(_STANDING, db=self._about)
        return None if data is None else Standing.decode(data)

    def held(self, txn: Any) -> tuple[int, int]:
        """Give how many rows there are and the bytes of the pages they take."""
        stat = txn.stat(self._rows)
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return stat["entries"], pages * stat["psize"]

    def apply(
        self,
        batches: Callable[[], Iterable[Rows]],
        before: Standing | None,
        after: Standing,
        *,
        ascending: bool = False,
    ) -> bool:
        """Write rows in one transaction.

        Args:
            batches: gives the rows; called again when the environment had to grow.
            before: how far the rows must have come; else nothing is done and False given.
            after: how far they are then.
            ascending: every name comes after all that are there.
        """

        def work(txn: Any) -> bool:
            if self.standing(txn) != before:
                return False
            with txn.cursor() as cursor:
                for names, values in batches():
                    self._need_room(names, values)
                    if None in values:
                        _mixed(txn, cursor, names, values)
                    else:
                        pairs = zip(names, values, strict=True)
                        cursor.putmulti(pairs, dupdata=False, overwrite=True, append=ascending)
            txn.put(_STANDING, after.encode(), db=self._about)
            return True

        self.end_reading()
        return self._write(work)

    def _need_room(self, names: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        # At worst each row makes a new copy of its page; large values take pages of their own.
        rows = 2 * sum(map(len, filter(None, values))) + _PAGE_BYTES * len(names)
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if free < rows + RESERVE_BYTES:
            msg = (
                f"{self.folder} has {free >> 20} MiB left and needs "
                f"{(rows + RESERVE_BYTES) >> 20}. Nothing is lost: make room on its disk, or name "
                f"another local folder, and start the pipeline again."
            )
            raise StateError(msg)

    def _write(self, work: Callable[[Any], T]) -> T:
        while True:
            try:
                with self._begin(write=True) as txn:
                    return work(txn)
            except lmdb.MapFullError:
                # The transaction is gone; no other of this process is open now.
                self._env.set_mapsize(2 * self._env.info()["map_size"])

    def _begin(self, *, write: bool) -> Any:
        while True:
            try:
                return self._env.begin(db=self._rows, write=write)
            except lmdb.MapResizedError:  # another process has grown it
                self._env.set_mapsize(0)


def _mixed(
    txn: Any, cursor: Any, names: Iterable[bytes], values: Iterable[bytes | None]
) -> None:
    put: list[tuple[bytes, bytes]] = []
    for name, value in zip(names, values, strict=True):
        if value is None:
            txn.delete(name)
        else:
            put.append((name, value))
    cursor.putmulti(put, dupdata=False, overwrite=True)


# An environment may be open only once in a process, and is of no use in a process forked from it:
# hence the process id. Values of a parent process are left alone, closing them is its business.
_OPEN: dict[tuple[int, Path], Environment] = {}


def current(folder: Path, map_bytes: int = MAP_BYTES) -> Environment:
    """Open the newest generation of a unit's environment; the first, if there is none."""
    found = _OPEN.get((os.getpid(), folder))
    if found is not None:
        if found.is_there():
            return found
        forget(folder)
    newest = max(_generations(folder), default=None)
    if newest is None:
        return renewed(folder, map_bytes)
    try:
        return _open(folder, newest, map_bytes)
    except BROKEN:
        return renewed(folder, map_bytes)


def renewed(folder: Path, map_bytes: int = MAP_BYTES) -> Environment:
    """Open a new, empty generation and take the older ones away.

    Another process may still have an older one open. It loses nothing: a folder is first moved
    aside, so that nobody opens it half deleted, and open files outlive their names.
    """
    forget(folder)
    folder.mkdir(parents=True, exist_ok=True)
    older = _generations(folder)
    newest = max(older, default=0) + 1
    with suppress(FileExistsError):  # another process was as quick: share its generation
        (folder / f"{_GENERATION}{newest}").mkdir()
    for number in older:
        with suppress(OSError):
            aside = folder / f"{_DISCARDED}{uuid.uuid4().hex}"
            (folder / f"{_GENERATION}{number}").rename(aside)
    for left in folder.glob(f"{_DISCARDED}*"):
        shutil.rmtree(left, ignore_errors=True)
    return _open(folder, newest, map_bytes)


def forget(folder: Path) -> None:
    """Close this process's environment of a unit, if it has one open."""
    found = _OPEN.pop((os.getpid(), folder), None)
    if found is not None:
        found.close()


def forget_all() -> None:
    """Close all environments of this process."""
    for pid, folder in list(_OPEN):
        if pid == os.getpid():
            forget(folder)


def _open(folder: Path, number: int, map_bytes: int) -> Environment:
    environment = Environment(folder / f"{_GENERATION}{number}", map_bytes)
    _OPEN[os.getpid(), folder] = environment
    return environment


def _generations(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [
        int(name[1:]) for name in names if name[:1] == _GENERATION and name[1:].isdecimal()
    ]


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(folder / "data.mdb")
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
