"""PySpark's worker daemon with Beam already in memory.

Forked workers share the imported modules, and the frozen heap spares them the full collection that
PySpark runs after every task (39 ms with Beam loaded).
"""

from __future__ import annotations

import gc
import importlib
import logging
from collections.abc import Callable
from typing import Any


def preload() -> None:
    """Import what every task needs, then freeze it."""
    logging.disable(logging.WARNING)  # Beam tells of optional parts that are not installed
    for name in ("headrace.worker.entry", "apache_beam"):
        importlib.import_module(name)
    logging.disable(logging.NOTSET)
    gc.collect()
    gc.freeze()


def leaving_quietly(worker: Callable[..., Any]) -> Callable[..., Any]:
    """Give a worker that ends without a word when the JVM it answers to has gone."""

    def work(*arguments: Any) -> Any:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # the session was stopped, and nobody is left to be told

    return work


if __name__ == "__main__":
    preload()
    # By name: this room never imports pyspark, but here it stands in for one of its modules.
    daemon: Any = importlib.import_module("pyspark.daemon")
    daemon.worker = leaving_quietly(daemon.worker)
    daemon.manager()
