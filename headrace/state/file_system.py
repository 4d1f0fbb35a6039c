"""What a location for files must be able to do, and how a file that is not finished is known."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Protocol

#: Names of files that are still being written begin so; readers skip them.
UNFINISHED = ".writing-"


class System(Protocol):
    """Whole files below one folder, by names with `/`."""

    exclusive: bool  # of several that create one file at the same moment, exactly one succeeds

    def path(self, name: str) -> str:
        """Give a file's path or address, for people; for no name that of the folder."""
        ...

    def read(self, name: str) -> bytes:
        """Read a whole file; FileNotFoundError if there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Let a file appear, whole; what was there before is replaced."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Let a file appear, whole, unless there is one; say whether it did."""
        ...

    def size(self, name: str) -> int | None:
        """Give a file's size in bytes; None if there is no such file."""
        ...

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder, in any order; none if it is not there."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no mistake."""
        ...


def unfinished_name(name: str) -> str:
    """Give a name, in the same folder, under which a file can be written that is not yet there."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{UNFINISHED}{uuid.uuid4().hex}-{base}"
