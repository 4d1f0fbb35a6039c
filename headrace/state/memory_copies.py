"""Local copies of state partitions in the memory of this process instead of in LMDB, for tests.

Does what `environments` does for LMDB, with a dictionary: `open_partition` takes one or the other
by the folder that it is given. One process and one thread at a time use a copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from headrace.state.chain import AppliedVersion
from headrace.state.changelog import Rows

#: How a folder begins that is none: its copies lie in memory.
MEMORY = "memory:"

_copies: dict[Path, MemoryCopy] = {}


def is_memory(location: str | Path) -> bool:
    """Whether copies at a location lie in memory."""
    return str(location).startswith(MEMORY)


class MemoryCopy:
    """The rows of one state partition, and how far they have come."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self.run = run  # the driver's run whose copy it is
        self._rows: dict[bytes, bytes] = {}
        self._names: list[bytes] | None = []  # sorted; None: to be sorted again
        self._applied: AppliedVersion | None = None

    # -- what `open_partition` and `StatePartition` ask of an environment

    def forget_dead_readers(self) -> None:
        """Nobody can have died: there is one process."""

    def read(self) -> MemoryCopy:
        """Begin to read; nothing is written meanwhile."""
        return self

    def end_reading(self) -> None:
        """Nothing is pinned by a reader."""

    def applied(self, txn: MemoryCopy) -> AppliedVersion | None:
        """Say how far the rows have come; None if nothing was ever applied."""
        return txn._applied

    def held(self, txn: MemoryCopy) -> tuple[int, int]:
        """Give how many rows there are, and their bytes."""
        return len(txn._rows), sum(map(len, txn._rows)) + sum(map(len, txn._rows.values()))

    def apply(
        self,
        batches: Callable[[], Iterable[Rows]],
        before: AppliedVersion | None,
        after: AppliedVersion,
        *,
        ascending: bool = False,
    ) -> bool:
        """Write rows, if they have come as far as `before` says; see `Environment.apply`."""
        del ascending
        if self._applied != before:
            return False
        for names, values in batches():
            self._put(names, values)
        self._names = None
        self._applied = after
        return True

    def _put(self, names: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for name, value in zip(names, values, strict=True):
            if value is None:
                self._rows.pop(name, None)
            else:
                self._rows[name] = value

    # -- what `StatePartition` asks of a transaction

    def get(self, name: bytes) -> bytes | None:
        """Give a row's value; None if there is no such row."""
        return self._rows.get(name)

    def cursor(self) -> MemoryCursor:
        """Give what walks over the rows in order."""
        if self._names is None:
            self._names = sorted(self._rows)
        return MemoryCursor(self._rows, self._names)


class MemoryCursor:
    """Walks over sorted rows, as far as `StatePartition` needs it."""

    def __init__(self, rows: dict[bytes, bytes], names: list[bytes]) -> None:
        self._rows, self._names = rows, names
        self._at = 0

    def __enter__(self) -> MemoryCursor:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def set_key(self, name: bytes) -> bool:
        """Whether there is such a row."""
        return name in self._rows

    def set_range(self, start: bytes) -> bool:
        """Go to the first row that is not before a name; say whether there is one."""
        self._at = bisect_left(self._names, start)
        return self._at < len(self._names)

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """Give the rows from here on."""
        return ((name, self._rows[name]) for name in self._names[self._at :])


def current(folder: Path, map_bytes: int, run: str) -> MemoryCopy:
    """Give the copy that this run of the driver has made; else begin a new one."""
    found = _copies.get(folder)
    return found if found is not None and found.run == run else renewed(folder, map_bytes, run)


def renewed(folder: Path, map_bytes: int, run: str) -> MemoryCopy:
    """Begin a new, empty copy in place of the old one."""
    del map_bytes
    made = _copies[folder] = MemoryCopy(folder, run)
    return made


def folder(name: str) -> Path:
    """Give the folder of all copies of whoever keeps state in `memory:NAME`."""
    return Path(f"{MEMORY}{name}")


def forget(folder: Path) -> None:
    """Forget the copy of a state partition, or all below a folder."""
    for found in [one for one in _copies if one == folder or folder in one.parents]:
        del _copies[found]
