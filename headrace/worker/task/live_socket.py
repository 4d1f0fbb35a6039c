"""Tells the driver, while a task runs, what user code prints and logs, and how far the task is.

Where workers and driver share a machine there is a socket of the driver's; a message is a line of
JSON. Elsewhere, and when the driver no longer listens, nothing is told: what is logged then travels
with the task's report, and what is printed goes where Spark puts it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TextIO

#: A driver that takes nothing for so long is stopped or gone; work goes on without it.
PATIENCE_SECONDS = 30.0
#: How far two words about a task's progress are apart.
COUNT_SECONDS = 0.4


class Teller:
    """This process' way to one driver."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(PATIENCE_SECONDS)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            self._socket = None

    def tell(self, message: Mapping[str, object]) -> bool:
        """Tell something; False: nobody listens."""
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            if self._socket is None:
                return False
            try:
                self._socket.sendall(data)
            except OSError:
                self._socket.close()
                self._socket = None
                return False
        return True

    def close(self) -> None:
        """Tell no more; what a fork took along is closed in the fork alone."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


#: Of this process: one, for the driver of the last task.
_tellers: dict[tuple[int, str], Teller] = {}


def teller(path: str) -> Teller | None:
    """Give this process' way to the driver that listens there; None: none does."""
    if not path:
        return None
    key = (os.getpid(), path)  # what a fork took along is its parent's
    if key not in _tellers:
        for other in _tellers.values():
            other.close()
        _tellers.clear()
        _tellers[key] = Teller(path)
    return _tellers[key]


class Printed:
    """Stands for `sys.stdout` in a task: what is printed arrives on the driver's, line by line."""

    encoding = "utf-8"
    errors = "strict"
    closed = False

    def __init__(self, channel: Teller, before: TextIO) -> None:
        self._teller = channel
        self.stands_for = before
        self._rest = ""

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def write(self, text: str) -> int:
        """Tell all whole lines; the rest waits for its end."""
        whole, newline, rest = (self._rest + text).rpartition("\n")
        self._rest = rest
        if newline:
            self._send(whole + newline)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: whole lines are on their way, and parts of lines wait for theirs."""

    def isatty(self) -> bool:
        """Whether there is somebody to be asked: not here."""
        return False

    def end(self) -> None:
        """Tell what is left without an end of line."""
        if self._rest:
            self._send(self._rest)
            self._rest = ""

    def _send(self, text: str) -> None:
        if not self._teller.tell({"print": text}):
            self.stands_for.write(text)

    def fileno(self) -> int:
        """Give the file of the stream that this one stands for."""
        return int(self.stands_for.fileno())


class Counted:
    """Says now and then how many elements a task has taken and given."""

    def __init__(self, channel: Teller, run: str, superstep: int, shard: int) -> None:
        self._teller = channel
        self._about = {"run": run, "superstep": superstep, "shard": shard}
        self.taken = self.given = 0
        self._last = 0.0

    def look(self) -> None:
        """Tell, unless it was told a moment ago."""
        now = time.monotonic()
        if now - self._last >= COUNT_SECONDS:
            self._last = now
            self.tell()

    def tell(self, *, done: bool = False) -> None:
        """Tell how far the task is."""
        self._teller.tell(
            {"count": {**self._about, "taken": self.taken, "given": self.given, "done": done}}
        )
