"""Folders and small files in memory, as a sink finds them on a disk."""

from __future__ import annotations


class MemoryFolders:
    """Folders and small files where a sink writes; folders are moved at once."""

    atomic_moves = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return path in self.files or self.is_folder(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return path in self.folders

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted."""
        below = f"{path}/"
        found = {
            one[len(below) :].partition("/")[0]
            for one in (*self.files, *self.folders)
            if one.startswith(below)
        }
        return sorted(found)

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it."""
        while path:
            self.folders.add(path)
            path = path.rpartition("/")[0]

    def move(self, source: str, target: str) -> None:
        """Give a folder or file another name, as `rename` does on a disk."""
        if not self.exists(source) or not self.is_folder(target.rpartition("/")[0]):
            raise FileNotFoundError(source)
        if self.names(target) or target in self.files:
            raise FileExistsError(target)
        for place in (self.files, dict.fromkeys(self.folders, b"")):
            for one in [o for o in place if o == source or o.startswith(f"{source}/")]:
                moved = target + one[len(source) :]
                if one in self.files:
                    self.files[moved] = self.files.pop(one)
                else:
                    self.folders.discard(one)
                    self.folders.add(moved)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it."""
        below = f"{path}/"
        for one in [o for o in (*self.files, *self.folders) if o == path or o.startswith(below)]:
            self.files.pop(one, None)
            self.folders.discard(one)

    def read(self, path: str) -> bytes:
        """Read a small file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; its folder must be there."""
        if not self.is_folder(path.rpartition("/")[0]):
            raise FileNotFoundError(path)
        self.files[path] = data
