"""A folder of small files: on a disk, in an object store, in memory, or where pyarrow reaches.

Files are written whole and appear at once, or not at all. Chooses the system for a location; the
systems themselves are `disk`, `object_store`, `memory_files` and `arrow_files`. Knows nothing of
what is in a file.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyarrow import fs

from headrace.state.arrow_files import ArrowFiles
from headrace.state.disk import Disk
from headrace.state.file_system import UNFINISHED, System
from headrace.state.memory_files import SCHEME as MEMORY
from headrace.state.memory_files import MemoryFiles, MemoryLock
from headrace.state.object_store import SCHEMES, ObjectStore

__all__ = ["UNFINISHED", "Files", "shown"]


class Files:
    """Files below one folder, by names with `/`. Can be pickled; holds no credentials."""

    def __init__(self, location: str, system: System | None = None) -> None:
        """Open a folder, which need not be there.

        Args:
            location: a path or a URI.
            system: where the files are, if not where the location says.
        """
        self.location = location
        self._given = system
        self._system = system or _system_at(location)
        self.is_local = isinstance(self._system, Disk)  # so it can have a lock file
        self.exclusive = self._system.exclusive  # of several that create a file, one succeeds

    def __reduce__(self) -> tuple[type[Files], tuple[str, System | None]]:
        return Files, (self.location, self._given)

    @property
    def has_memory_lock(self) -> bool:
        """Whether the folder lies in memory and can be locked there."""
        return isinstance(self._system, MemoryFiles)

    def memory_lock(self) -> MemoryLock | None:
        """Lock a folder that lies in memory; None: another has it."""
        assert isinstance(self._system, MemoryFiles)
        return self._system.lock()

    def path(self, name: str) -> str:
        """Give a file's path or address; for no name the folder's, unlike that of any other."""
        return self._system.path(name)

    def below(self, name: str) -> str:
        """Give the location of a folder below this one: a path or a URI without options."""
        base = self.location.partition("?")[0] if "://" in self.location else self.location
        return f"{base.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        return self._system.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file; what was there before is replaced."""
        self._system.write(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; say whether it was written.

        Of several that try at the same moment one is told so, if `exclusive`; else perhaps more,
        and the last one's data stays. OSError leaves open whether it was written.
        """
        return self._system.create(name, data)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return self._system.size(name) is not None

    def size(self, name: str) -> int:
        """Give a file's size in bytes; FileNotFoundError if there is none."""
        found = self._system.size(name)
        if found is None:
            raise FileNotFoundError(self.path(name))
        return found

    def names(self, folder: str) -> list[str]:
        """Give the names of all finished files below a folder, sorted."""
        return sorted(name for name in self._system.listed(folder) if not _is_unfinished(name))

    def unfinished(self, folder: str) -> list[str]:
        """Give the names of files below a folder that are being written, or never were to the end.

        Sorted. An object store has none: what is not wholly there is not listed.
        """
        return sorted(name for name in self._system.listed(folder) if _is_unfinished(name))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        self._system.delete(list(names))


def shown(location: str) -> str:
    """Give a location as it may be told to people: without credentials and without options."""
    scheme, mark, rest = location.partition("://")
    if not mark:
        return location
    user, at, host = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{host}"


def _is_unfinished(name: str) -> bool:
    return name.rpartition("/")[2].startswith(UNFINISHED)


def _system_at(location: str) -> System:
    """Give the system for a location; ValueError or OSError says why there is none."""
    scheme, mark, rest = location.partition("://")
    if not mark:
        return Disk(location)
    if scheme.lower() == MEMORY:
        return MemoryFiles(rest.rstrip("/"))
    if scheme.lower() in SCHEMES:
        return ObjectStore.at(location)
    try:
        system, root = fs.FileSystem.from_uri(location)
    except (OSError, ValueError) as error:  # which repeats the whole of it
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(str(error).replace(location, shown(location))) from None
    return Disk(root) if isinstance(system, fs.LocalFileSystem) else ArrowFiles(system, root)
