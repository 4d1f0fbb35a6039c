"""What a process remembers of the logs it wrote last.

A memory of rows by the name of their file. Knows nothing of what the rows mean.
"""

from __future__ import annotations

from headrace.state.changelog import Rows
from headrace.state.files import Files

#: Rows that a process keeps, in bytes. A log beyond it is read back from its file.
KEPT_BYTES = 32 << 20


class Kept:
    """The rows of files that this process wrote last, up to some bytes.

    They spare reading a file that was just written: when the next epoch opens the unit, and when
    young logs are merged. A file's name is given once and never again, so nothing here can be old.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._rows: dict[tuple[str, str], tuple[Rows, int]] = {}

    def put(self, files: Files, name: str, rows: Rows, raw_bytes: int) -> None:
        """Keep a file's rows; the oldest make room."""
        self.drop(files, name)
        if raw_bytes > self._limit:
            return
        self._rows[files.place, name] = (rows, raw_bytes)
        self._held += raw_bytes
        while self._held > self._limit:
            place, oldest = next(iter(self._rows))
            self._held -= self._rows.pop((place, oldest))[1]

    def get(self, files: Files, name: str) -> Rows | None:
        """Give a file's rows, if they are still here."""
        found = self._rows.get((files.place, name))
        return None if found is None else found[0]

    def drop(self, files: Files, name: str) -> None:
        """Forget a file."""
        self._held -= self._rows.pop((files.place, name), ((), 0))[1]

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._held = 0


#: The memory of this process.
KEPT = Kept(KEPT_BYTES)
