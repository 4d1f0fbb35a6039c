"""The few things that are done to folders and small files where a sink writes.

Two kinds of storage: this machine's disk, and whatever Hadoop's file systems reach for Spark. A
path means here what it means to Spark's writers. Knows nothing of epochs and of who may write.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import OptionError
from headrace.io.connect_storage import ArrowStorage, no_way_to, shares_disk

#: Schemes whose folders are moved at once or not at all. Others copy, file by file.
ATOMIC_MOVES = frozenset({"file", "hdfs", "viewfs", "ofs", "o3fs", "abfs", "abfss"})


class Storage(Protocol):
    """Folders and small files, by full paths."""

    atomic_moves: bool  # a folder is moved at once or not at all

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted; none if there is no such folder."""

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, unless it is there."""

    def move(self, source: str, target: str) -> None:
        """Give a folder another name. FileNotFoundError: the source is not there (any more)."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it; nothing there is no mistake."""

    def read(self, path: str) -> bytes:
        """Read a small file; FileNotFoundError if there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; it appears whole, in place of what was there."""


class LocalStorage:
    """This machine's disk.

    Args:
        base: the folder that relative paths begin at.
    """

    atomic_moves = True

    def __init__(self, base: str = "/") -> None:
        self._base = base.removeprefix("file:")

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.lexists(self.location(path))

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return os.path.isdir(self.location(path))

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(self.location(path)))
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, unless it is there."""
        Path(self.location(path)).mkdir(parents=True, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        """Give a folder another name. FileNotFoundError: the source is not there (any more)."""
        os.rename(self.location(source), self.location(target))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it; nothing there is no mistake."""
        location = Path(self.location(path))
        if location.is_dir() and not location.is_symlink():
            shutil.rmtree(location, ignore_errors=True)
        else:
            location.unlink(missing_ok=True)

    def read(self, path: str) -> bytes:
        """Read a small file; FileNotFoundError if there is none."""
        return Path(self.location(path)).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; it appears whole, in place of what was there."""
        location = Path(self.location(path))
        unfinished = location.with_name(f".{location.name}.{uuid.uuid4().hex}")
        try:
            with unfinished.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(unfinished, location)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def location(self, path: str) -> str:
        """Give the full path that is meant."""
        if path.startswith("file:"):
            return "/" + path.removeprefix("file:").lstrip("/")
        return os.path.join(self._base, path)


class HadoopStorage:
    """What Spark reaches by Hadoop's file systems: HDFS, object stores, mounted disks.

    Args:
        session: a session of Spark's, whose Hadoop settings hold.
        path: a path on the file system that is meant.
    """

    def __init__(self, session: Any, path: str) -> None:
        self._jvm = session._jvm  # noqa: SLF001 (Spark's Python has no other door to Hadoop)
        settings = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._system = self._path(path).getFileSystem(settings)
        self.scheme = str(self._system.getUri().getScheme())
        self.atomic_moves = self.scheme in ATOMIC_MOVES
        self.base = str(self._system.getWorkingDirectory())  # of relative paths

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._system.exists(self._path(path)))

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        location = self._path(path)
        return self.exists(path) and bool(self._system.getFileStatus(location).isDirectory())

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted; none if there is no such folder."""
        if not self.exists(path):
            return []
        return sorted(str(s.getPath().getName()) for s in self._system.listStatus(self._path(path)))

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, unless it is there."""
        self._system.mkdirs(self._path(path))

    def move(self, source: str, target: str) -> None:
        """Give a folder another name. FileNotFoundError: the source is not there (any more)."""
        # Hadoop would move it into a target that is there.
        if self.exists(target):
            raise FileExistsError(target)
        moved = self.exists(source) and self._system.rename(self._path(source), self._path(target))
        if not moved:
            raise FileNotFoundError(source)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it; nothing there is no mistake."""
        self._system.delete(self._path(path), True)

    def read(self, path: str) -> bytes:
        """Read a small file; FileNotFoundError if there is none."""
        if not self.exists(path):
            raise FileNotFoundError(path)
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; it appears whole, in place of what was there."""
        if not self.atomic_moves:  # an object appears whole when it is closed
            self._put(path, data)
            return
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}"
        self._put(unfinished, data)
        # Hadoop's rename replaces nothing. In between there is no file: its reader takes care.
        self.remove(path)
        self.move(unfinished, path)

    def _put(self, path: str, data: bytes) -> None:
        stream = self._system.create(self._path(path), True)
        try:
            stream.write(data)
        finally:
            stream.close()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def storage_of(session: Any, path: str) -> Storage:
    """Give the storage that a path is on, as Spark's writers in a session would take it.

    A session that is not Spark's (`headrace.testing`) says itself where its paths lie.
    """
    if hasattr(session, "storage"):
        own: Storage = session.storage()
        return own
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return _on_connect(session, path)
    found = HadoopStorage(session, path)
    return LocalStorage(found.base) if found.scheme == "file" else found


def _on_connect(session: Any, path: str) -> Storage:
    if "://" in path and not path.startswith("file://"):
        return ArrowStorage(path)
    if not shares_disk(session):
        raise no_way_to(path)
    if not path.startswith(("/", "file:")):
        msg = f"{path}: begins at the folder in which the server was started; give the full path"
        raise OptionError(msg)
    return LocalStorage()
