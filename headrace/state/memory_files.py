"""Files in the memory of this process: a checkpoint that ends with it, for tests.

`memory://name` is one folder for all who name it in this process. A file appears whole, and of
several that create it one succeeds, as in an object store; unlike there, the folder can be locked.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

SCHEME = "memory"

_folders: dict[str, dict[str, bytes]] = {}
_locked: set[str] = set()
_guard = threading.Lock()


class MemoryLock:
    """Keeps others of this process from a folder until it is closed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def close(self) -> None:
        """Let others have the folder."""
        with _guard:
            _locked.discard(self._name)


class MemoryFiles:
    """Files below one folder."""

    exclusive = True

    def __init__(self, name: str) -> None:
        self._name = name
        with _guard:
            self._files = _folders.setdefault(name, {})

    def path(self, name: str) -> str:
        """Give a file's address."""
        return f"{SCHEME}://{self._name}/{name}" if name else f"{SCHEME}://{self._name}"

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(self.path(name)) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file; what was there before is replaced."""
        self._files[name] = bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; say whether it was written."""
        with _guard:
            if name in self._files:
                return False
            self._files[name] = bytes(data)
            return True

    def size(self, name: str) -> int | None:
        """Give a file's size in bytes; None if there is no such file."""
        found = self._files.get(name)
        return None if found is None else len(found)

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder."""
        start = f"{folder.rstrip('/')}/" if folder else ""
        return [name for name in list(self._files) if name.startswith(start)]

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        for name in names:
            self._files.pop(name, None)

    def lock(self) -> MemoryLock | None:
        """Lock the folder for whoever asks first; None: another has it."""
        with _guard:
            if self._name in _locked:
                return None
            _locked.add(self._name)
            return MemoryLock(self._name)


def forget(name: str) -> None:
    """Remove a folder with all its files."""
    with _guard:
        _folders.pop(name, None)
        _locked.discard(name)
