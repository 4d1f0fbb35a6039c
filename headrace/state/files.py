"""A folder of small files on any file system that pyarrow knows.

Files are written whole and appear at once, or not at all. Knows nothing of what is in them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyarrow import fs

from headrace.state.private import make_below, open_unshared
from headrace.state.room import room_for

#: Names of files that are still being written begin so; readers skip them.
UNFINISHED = ".writing-"


class Files:
    """Files below one folder, by names with `/`."""

    def __init__(self, place: str) -> None:
        self.place = place
        if "://" in place:
            self._system, self._root = fs.FileSystem.from_uri(place)
        else:
            self._system, self._root = fs.LocalFileSystem(), str(Path(place).absolute())
        self.is_local = isinstance(self._system, fs.LocalFileSystem)
        self._made: set[str] = set()

    def __reduce__(self) -> tuple[type[Files], tuple[str]]:
        return Files, (self.place,)

    def path(self, name: str) -> str:
        """Give the file's path in its file system."""
        return f"{self._root}/{name}" if name else str(self._root)

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        with self._system.open_input_stream(self.path(name), compression=None) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file; what was there before is replaced."""
        unfinished = self._unfinished(name)
        try:
            with room_for(self.path(name), len(data)):
                self._put(unfinished, data)
                self._system.move(unfinished, self.path(name))
        except BaseException:
            with suppress(OSError):
                self._system.delete_file(unfinished)
            raise

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; say whether it was written.

        Of several that try at the same moment one wins, on local file systems; elsewhere the last.
        """
        if not self.is_local:
            if self.exists(name):
                return False
            self.write(name, data)
            return True
        unfinished = self._unfinished(name)
        try:
            with room_for(self.path(name), len(data)):
                self._put(unfinished, data)
                os.link(unfinished, self.path(name))
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                os.unlink(unfinished)
        return True

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self._system.get_file_info(self.path(name)).type == fs.FileType.File)

    def size(self, name: str) -> int:
        """Give a file's size in bytes."""
        info = self._system.get_file_info(self.path(name))
        if info.type != fs.FileType.File:
            raise FileNotFoundError(self.path(name))
        return int(info.size)

    def names(self, folder: str) -> list[str]:
        """Give the names of all finished files below a folder, sorted."""
        chosen = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=True)
        skip = len(self._root) + 1
        return sorted(
            info.path[skip:]
            for info in self._system.get_file_info(chosen)
            if info.type == fs.FileType.File and not info.base_name.startswith(UNFINISHED)
        )

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        for name in names:
            with suppress(FileNotFoundError):
                self._system.delete_file(self.path(name))

    def _unfinished(self, name: str) -> str:
        folder, _, base = name.rpartition("/")
        if folder not in self._made:
            if self.is_local:
                make_below(Path(self.path(folder)))
            else:
                self._system.create_dir(self.path(folder), recursive=True)
            self._made.add(folder)
        return self.path(f"{folder}/{UNFINISHED}{uuid.uuid4().hex}-{base}" if folder else
                         f"{UNFINISHED}{uuid.uuid4().hex}-{base}")

    def _put(self, path: str, data: bytes) -> None:
        if not self.is_local:
            with self._system.open_output_stream(path, compression=None) as stream:
                stream.write(data)
            return
        with open(path, "wb", opener=open_unshared) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
