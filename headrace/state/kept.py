"""What a process remembers of the logs it wrote last.

A memory of rows by the name of their file. Knows nothing of what the rows mean.
"""

from __future__ import annotations

from headrace.state.byte_cache import ByteCache
from headrace.state.changelog import Rows
from headrace.state.files import Files

#: Rows that a process keeps, in bytes. A log beyond it is read back from its file.
KEPT_BYTES = 32 << 20


class Kept:
    """The rows of files that this process wrote last, up to some bytes.

    They spare reading a file that was just written: when the next epoch opens the state
    partition, and when young logs are merged. A file's name is given once and
    never again, so nothing here can be old.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._rows = ByteCache[tuple[str, str], Rows](limit_bytes)

    def put(self, files: Files, name: str, rows: Rows, raw_bytes: int) -> None:
        """Keep a file's rows; others make room."""
        self._rows.put((files.location, name), rows, raw_bytes)

    def get(self, files: Files, name: str) -> Rows | None:
        """Give a file's rows, if they are still here."""
        return self._rows.get((files.location, name))

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()


#: The memory of this process.
KEPT = Kept(KEPT_BYTES)
