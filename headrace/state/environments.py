"""The local copy of a state partition: an LMDB environment that can be thrown away.

Opens environments once per process, brings them to the version a chain names, grows them. What is
in them came from files that a manifest named; they are a cache, never the truth, and one that
cannot be read gives way to a new one. Knows nothing of an epoch's own writes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from headrace.errors import StateError
from headrace.state.chain import AppliedVersion
from headrace.state.changelog import Rows
from headrace.state.generations import Generation, begin, newest_of

_LOG = logging.getLogger(__name__)


class OddCopyError(Exception):
    """A copy holds what nobody wrote there; never leaves this room."""


#: How much an environment may hold at first, in bytes; doubled when it is full. It is address
#: space, not disk space.
MAP_BYTES = 1 << 30
#: Errors that say the environment itself is of no use any more. All others of LMDB speak of the
#: machine (no memory, no space, no rights), and a new environment would meet them too.
BROKEN = (
    OddCopyError,
    lmdb.BadDbiError,
    lmdb.BadRslotError,
    lmdb.BadTxnError,
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.DbsFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.KeyExistsError,
    lmdb.NotFoundError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.ProblemError,
    lmdb.TxnFullError,
    lmdb.VersionMismatchError,
)
#: Elsewhere a file as large as the map may really take that space.
_WRITE_THROUGH_MAP = sys.platform == "linux"
#: Free space that must be left on the disk, in bytes.
RESERVE_BYTES = 16 << 20
#: How often to begin again when other processes take away what this one has begun.
_TRIES = 8
_PAGE_BYTES = 4096
_DATA = "data.mdb"
_APPLIED = b"applied"

T = TypeVar("T")


class Environment:
    """One open LMDB environment: the rows, and beside them how far they have come."""

    def __init__(self, folder: Path, run: str, map_bytes: int) -> None:
        self.folder = folder
        self.run = run  # the driver's run whose copy it is
        # No sync: a copy that an operating system's crash tears belongs to another boot. Writing
        # through the map makes a touched page cost a third, but a full disk would then kill the
        # process instead of raising an error: hence `_need_room`.
        self._file = os.open(folder / _DATA, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with _never_shrunk(self._file) as size:
                self._env = lmdb.open(
                    str(folder),
                    map_size=max(map_bytes, size),
                    max_dbs=2,
                    sync=False,
                    metasync=False,
                    writemap=_WRITE_THROUGH_MAP,
                )
        except BaseException:
            os.close(self._file)
            raise
        self._reading: Any = None
        try:
            self._rows = self._table(b"rows")
            self._about = self._table(b"about")
        except BaseException:
            self.close()
            raise
        self._identity = _identity(folder)

    def is_there(self) -> bool:
        """Whether the folder still holds the very file that was opened."""
        return self._identity is not None and _identity(self.folder) == self._identity

    def is_read(self) -> bool:
        """Whether a state partition reads from it now."""
        return self._reading is not None

    def close(self) -> None:
        """Close the environment and whatever still reads from it."""
        self.end_reading()
        self._env.close()
        os.close(self._file)

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

    def applied(self, txn: Any) -> AppliedVersion | None:
        """Say how far the rows have come; None if nothing was ever applied."""
        data = txn.get(_APPLIED, db=self._about)
        if data is None:
            if txn.stat(self._rows)["entries"]:
                msg = "there are rows, but nothing says where they come from"
                raise OddCopyError(msg)
            return None
        try:
            return AppliedVersion.decode(data)
        except ValueError as error:
            msg = f"it does not say how far it has come: {error}"
            raise OddCopyError(msg) from error

    def held(self, txn: Any) -> tuple[int, int]:
        """Give how many rows there are and the bytes of the pages they take."""
        stat = txn.stat(self._rows)
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return stat["entries"], pages * stat["psize"]

    def apply(
        self,
        batches: Callable[[], Iterable[Rows]],
        before: AppliedVersion | None,
        after: AppliedVersion,
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
            if self.applied(txn) != before:
                return False
            with txn.cursor() as cursor:
                for names, values in batches():
                    self._need_room(names, values)
                    if None in values:
                        _mixed(txn, cursor, names, values)
                    else:
                        pairs = zip(names, values, strict=True)
                        cursor.putmulti(pairs, dupdata=False, overwrite=True, append=ascending)
            txn.put(_APPLIED, after.encode(), db=self._about)
            return True

        self.end_reading()
        return self._write(work)

    def _need_room(self, names: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        # At worst each row makes a new copy of its page; large values take pages of their own.
        rows = 2 * sum(map(len, filter(None, values))) + _PAGE_BYTES * len(names)
        disk = os.fstatvfs(self._file)  # by its file: another process may have moved it
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
                self._map(2 * self._env.info()["map_size"])

    def _table(self, name: bytes) -> Any:
        while True:
            try:
                return self._env.open_db(name)
            except lmdb.MapResizedError:  # another process has grown it since it was opened here
                self._map(0)

    def _begin(self, *, write: bool) -> Any:
        while True:
            try:
                return self._env.begin(db=self._rows, write=write)
            except lmdb.MapResizedError:  # another process has grown it
                self._map(0)

    def _map(self, least_bytes: int) -> None:
        with _never_shrunk(self._file) as size:
            self._env.set_mapsize(max(least_bytes, size))


@contextmanager
def _never_shrunk(file: int) -> Iterator[int]:
    """Give the size of an environment's file, in whole pages, and keep others from changing it.

    LMDB makes the file as long as the map of whoever opens it, also where another process has
    a longer one: a page that lies behind the new end would then kill that process, or be lost.
    """
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield -(-os.fstat(file).st_size // _PAGE_BYTES) * _PAGE_BYTES
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


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


def current(folder: Path, map_bytes: int = MAP_BYTES, run: str = "") -> Environment:
    """Open the newest copy that this run of the driver has made; else begin a new one."""
    found = _OPEN.get((os.getpid(), folder))
    if found is not None and found.run == run and found.is_there():
        return found
    _forget_gone()
    newest = newest_of(folder, run)
    if newest is None:
        return renewed(folder, map_bytes, run)
    forget(folder)
    try:
        return _open(folder, newest, map_bytes)
    except (*BROKEN, lmdb.Error, OSError) as error:
        tell(folder, error)
        return renewed(folder, map_bytes, run)


def renewed(folder: Path, map_bytes: int = MAP_BYTES, run: str = "") -> Environment:
    """Open a new, empty generation and take the older ones away."""
    forget(folder)
    generation = begin(folder, run)
    for _ in range(_TRIES):
        try:
            return _open(folder, generation, map_bytes)
        except (lmdb.Error, OSError):
            if (folder / generation.name).is_dir():
                raise
            # Another process took it away meanwhile, to begin one of its own: share that one.
            generation = newest_of(folder, run) or begin(folder, run)
    msg = f"other processes keep changing the local copy of state in {folder}; end them first"
    raise StateError(msg)


def tell(folder: Path, why: Exception) -> None:
    """Log that a copy is given up."""
    _LOG.warning(
        "the local copy of state in %s cannot be read (%s: %s); it is built again from the "
        "checkpoint, nothing is lost", folder, type(why).__name__, why,
    )


def forget(folder: Path) -> None:
    """Close this process's environment of a state partition, if it has one open."""
    found = _OPEN.pop((os.getpid(), folder), None)
    if found is not None:
        found.close()


def forget_all() -> None:
    """Close all environments of this process."""
    for pid, folder in list(_OPEN):
        if pid == os.getpid():
            forget(folder)


def _forget_gone() -> None:
    """Close what others have taken away: an open file keeps its space on the disk."""
    for (pid, folder), found in list(_OPEN.items()):
        if pid == os.getpid() and not found.is_read() and not found.is_there():
            forget(folder)


def _open(folder: Path, generation: Generation, map_bytes: int) -> Environment:
    environment = Environment(folder / generation.name, generation.run, map_bytes)
    _OPEN[os.getpid(), folder] = environment
    return environment


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(folder / _DATA)
    except OSError:
        return None
    return found.st_dev, found.st_ino
