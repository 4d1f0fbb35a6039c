"""Hears from the workers of this machine what they print, log and have done, while they run.

One socket in a folder that only this user can enter, and one thread, for all runs of the process.
What user code printed is written to `sys.stdout`, what it logged is logged here. `settle` returns
when everything that was told before it was called has been handled.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import os
import selectors
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.engine.leftovers import own_folder
from headrace.engine.replay import replay

_LOG = logging.getLogger(__name__)
#: The longest name of a socket that every system takes.
PATH_BYTES = 100
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """How far one task is."""

    taken: int = 0
    given: int = 0
    done: bool = False


class Ear:
    """Listens for the workers of this process' runs."""

    def __init__(self) -> None:
        self.path = str(own_folder("ear") / "ear")
        self._counts: dict[str, dict[tuple[int, int], TaskCount]] = {}
        self._selector = selectors.DefaultSelector()
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(self.path)
        self._door.listen(64)
        self._rests: dict[socket.socket, bytes] = {}
        self._selector.register(self._door, selectors.EVENT_READ)
        self._wake, woken = socket.socketpair()
        self._selector.register(woken, selectors.EVENT_READ)
        self._woken = woken
        self._waiting = 0  # threads in `settle`
        self._settled = threading.Condition()
        self._rounds = 0  # passes after which nothing was left to read
        self._ended = False
        threading.Thread(target=self._listen, name="headrace-ear", daemon=True).start()
        atexit.register(self._end)

    def _end(self) -> None:
        self._ended = True  # Python's streams belong to the main thread alone from here on

    def counts(self, run: str) -> Mapping[tuple[int, int], TaskCount]:
        """Give how far the tasks of a run are, by superstep and shard."""
        return dict(self._counts.get(run, {}))

    def forget(self, run: str) -> None:
        """Forget how far a run was."""
        self._counts.pop(run, None)

    def settle(self) -> None:
        """Wait until all that workers have told so far is handled."""
        with self._settled:
            self._waiting += 1
            before = self._rounds
            self._wake.send(b"!")
            # Two: the pass that is going on may have looked before the last word came.
            self._settled.wait_for(lambda: self._rounds >= before + 2, SETTLE_SECONDS)
            self._waiting -= 1

    def _listen(self) -> None:
        while not self._ended:
            ready = self._selector.select(timeout=0 if self._waiting else None)
            for key, _ in ready:
                if key.fileobj is self._woken:
                    self._woken.recv(64)
                elif key.fileobj is self._door:
                    found, _ = self._door.accept()
                    self._rests[found] = b""
                    self._selector.register(found, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj)
            if not ready:
                with self._settled:
                    self._rounds += 1
                    self._settled.notify_all()

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection)
            connection.close()
            self._rests.pop(connection, None)
            return
        *lines, self._rests[connection] = (self._rests[connection] + data).split(b"\n")
        printed: list[str] = []
        for line in lines:
            message = json.loads(line)
            if "print" in message:
                printed.append(message["print"])
                continue
            self._print(printed)
            self._handle(message)
        self._print(printed)

    def _print(self, printed: list[str]) -> None:
        if printed and not self._ended:
            # Whoever reads our stdout may have gone.
            with contextlib.suppress(OSError, ValueError):
                out = sys.stdout
                # A task in this very process has put its own there: it would tell us once more.
                out = getattr(out, "stands_for", out)
                out.write("".join(printed))
                out.flush()
        printed.clear()

    def _handle(self, message: dict[str, Any]) -> None:
        if "count" in message:
            about = message["count"]
            of_run = self._counts.setdefault(about["run"], {})
            of_run[about["superstep"], about["shard"]] = TaskCount(
                taken=about["taken"], given=about["given"], done=about["done"]
            )
        elif not self._ended:
            try:
                replay(message["log"])
            except Exception as error:  # noqa: BLE001 (a warning that the user has made an error, or a handler)
                _LOG.debug("a record of a worker could not be logged: %s", error)


@functools.cache
def _ear(process: int) -> Ear | None:
    del process  # of a fork the ear is its parent's
    try:
        found = Ear()
    except OSError as error:
        _LOG.debug("what workers print will go where Spark puts it: %s", error)
        return None
    return found if len(found.path) <= PATH_BYTES else None


def ear() -> Ear | None:
    """Give this process' ear; None where the folder of temporary files has too long a name."""
    return _ear(os.getpid())
