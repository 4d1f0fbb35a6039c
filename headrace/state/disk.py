"""Files in a folder of this machine, or of a network file system that is mounted here.

A file is written aside, synced, and given its name in one step: by a rename, which replaces, or by
a hard link, which fails if the name is taken. Neither needs a lock.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headrace.state.disk_space import space_for
from headrace.state.file_system import unfinished_name
from headrace.state.private import make_below, open_unshared

#: What file systems answer that know no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Disk:
    """Files below a folder, which is made when the first one is written."""

    exclusive = True

    def __init__(self, folder: str) -> None:
        self._root = str(Path(folder).absolute())
        self._made: set[str] = set()

    def path(self, name: str) -> str:
        """Give a file's path."""
        return f"{self._root}/{name}" if name else self._root

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        with open(self.path(name), "rb") as stream:
            return stream.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file; what was there before is replaced."""
        unfinished = self._unfinished(name)
        try:
            with space_for(self.path(name), len(data)):
                self._put(unfinished, data)
                os.replace(unfinished, self.path(name))
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; say whether it was written."""
        unfinished = self._unfinished(name)
        try:
            with space_for(self.path(name), len(data)):
                self._put(unfinished, data)
                os.link(unfinished, self.path(name))
        except FileExistsError:
            return False
        except OSError as e:
            if e.errno in _NO_LINKS and os.path.exists(unfinished):
                raise OSError(e.errno, _no_links(e), self.path(name)) from e
            raise
        finally:
            with suppress(OSError):
                os.unlink(unfinished)
        return True

    def size(self, name: str) -> int | None:
        """Give a file's size in bytes; None if there is no such file."""
        path = Path(self.path(name))
        try:
            return path.stat().st_size if path.is_file() else None
        except FileNotFoundError:  # deleted between the two questions
            return None

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder."""
        skip = len(self._root) + 1
        # A folder that goes meanwhile is as good as one that was never there; else it is an error.
        return [
            f"{parent}/{name}"[skip:]
            for parent, _, names in os.walk(self.path(folder), onerror=_unless_gone)
            for name in names
        ]

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(self.path(name))

    def _unfinished(self, name: str) -> str:
        folder = name.rpartition("/")[0]
        if folder not in self._made:
            make_below(Path(self.path(folder)))
            self._made.add(folder)
        return self.path(unfinished_name(name))

    def _put(self, path: str, data: bytes) -> None:
        with open(path, "wb", opener=open_unshared) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())


def _no_links(error: OSError) -> str:
    return (
        f"the file system has no hard links ({error.strerror}), by which a checkpoint makes sure "
        "that a file is created only once; use a folder of another file system, or an object store"
    )


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error
