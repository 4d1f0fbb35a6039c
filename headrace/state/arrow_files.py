"""Files on a file system that pyarrow knows and we have nothing better for, such as HDFS.

pyarrow has no call that creates a file only if there is none, and its moves replace. So `create`
looks first and writes then: two that do so at the same moment can both succeed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyarrow import fs

from headrace.state.file_system import unfinished_name


class ArrowFiles:
    """Files below a folder of a pyarrow file system."""

    exclusive = False

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._made: set[str] = set()

    def path(self, name: str) -> str:
        """Give a file's path in its file system."""
        return f"{self._root}/{name}" if name else self._root

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        with self._system.open_input_stream(self.path(name), compression=None) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file; what was there before is replaced."""
        folder = name.rpartition("/")[0]
        if folder not in self._made:
            self._system.create_dir(self.path(folder), recursive=True)
            self._made.add(folder)
        unfinished = self.path(unfinished_name(name))
        try:
            with self._system.open_output_stream(unfinished, compression=None) as stream:
                stream.write(data)
            self._system.move(unfinished, self.path(name))
        except BaseException:
            with suppress(OSError):
                self._system.delete_file(unfinished)
            raise

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless one is seen; say whether it was written."""
        if self.size(name) is not None:
            return False
        self.write(name, data)
        return True

    def size(self, name: str) -> int | None:
        """Give a file's size in bytes; None if there is no such file."""
        info = self._system.get_file_info(self.path(name))
        return int(info.size) if info.type == fs.FileType.File else None

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder."""
        chosen = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=True)
        skip = len(self._root) + 1
        found = self._system.get_file_info(chosen)
        return [info.path[skip:] for info in found if info.type == fs.FileType.File]

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        for name in names:
            with suppress(FileNotFoundError):
                self._system.delete_file(self.path(name))
