"""PySpark's worker daemon with Beam already in memory.

Forked workers share the imported modules, and the frozen heap spares them the full collection that
PySpark runs after every task (39 ms with Beam loaded).
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.state.private import lets_in
from headrace.worker.frozen import freeze_modules

#: Where Spark tells its daemon to put the socket; not set where they speak by TCP.
SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
#: What Spark appends to it: a slash, a dot, a UUID and `.sock`.
SOCKET_NAME_BYTES = 43
#: What every system takes.
SOCKET_PATH_BYTES = 103


def preload() -> None:
    """Import what every task needs, then freeze it."""
    logging.disable(logging.WARNING)  # Beam tells of optional parts that are not installed
    for name in ("headrace.worker.entry", "apache_beam"):
        importlib.import_module(name)
    logging.disable(logging.NOTSET)
    freeze_modules()


def leaving_quietly(worker: Callable[..., object]) -> Callable[..., object]:
    """Give a worker that ends without a word when the JVM it answers to has gone."""

    def work(*arguments: object) -> object:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # the session was stopped, and nobody is left to be told

    return work


def private_sockets() -> str:
    """Let the daemon listen where only this user can enter; give the folder made for it, if any.

    Whoever can write to its socket can have a function run, and is asked for no password. Spark
    makes it in the folder for temporary files, as open as the umask lets it.
    """
    given = os.environ.get(SOCKETS, "")
    if not given or not lets_in(Path(given)):
        return ""
    made = tempfile.mkdtemp(prefix="headrace-", dir=given)
    if len(made) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES:
        os.rmdir(made)
        return ""
    os.environ[SOCKETS] = made
    return made


if __name__ == "__main__":
    preload()
    # By name: this room never imports pyspark, but here it stands in for one of its modules.
    daemon: Any = importlib.import_module("pyspark.daemon")
    daemon.worker = leaving_quietly(daemon.worker)
    folder = private_sockets()
    try:
        daemon.manager()
    finally:
        if folder:
            with suppress(OSError):  # the workers pass here too, while the daemon still listens
                os.rmdir(folder)
