"""What a shard's store can do, and a model of it in memory.

Bytes in, bytes out. The model is the oracle of the store on disk and serves tests that need no
disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from headrace.errors import StateError


def odd_rows(what: str) -> StateError:
    """Give the error for rows that do not fit together.

    Whoever reads rows cannot know why: files of the checkpoint are checked when they are read, and
    what is left is a local copy that was changed during the run, or a defect of headrace.
    """
    return StateError(
        f"{what}. Start the pipeline again: its local copies of state are then built anew from the "
        f"checkpoint, which `headrace state verify` can check."
    )


class Store(Protocol):
    """The rows of one shard during one epoch."""

    def get(self, name: bytes) -> bytes | None:
        """Give a row's value; None if there is no such row."""

    def put(self, name: bytes, value: bytes) -> None:
        """Write a row."""

    def delete(self, name: bytes) -> None:
        """Take a row away, if there is one."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the rows with start <= name < end in the order of their names.

        Sees everything written before the call. Rows may be written and deleted while the scan
        goes on; whether it sees these is not said.
        """


class MemoryStore:
    """A store that is a sorted dictionary."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        """Give a row's value."""
        return self.rows.get(name)

    def put(self, name: bytes, value: bytes) -> None:
        """Write a row."""
        self.rows[name] = value

    def delete(self, name: bytes) -> None:
        """Take a row away."""
        self.rows.pop(name, None)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give rows in order."""
        found = sorted(name for name in self.rows if start <= name < end)
        return iter([(name, self.rows[name]) for name in found])
