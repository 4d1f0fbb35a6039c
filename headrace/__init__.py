"""headrace runs Apache Beam pipelines on Spark through PySpark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.plan.sorting import time_sorted
from headrace.plan.traits import traits
from headrace.quiet import quietly, undo_beams_handler

if TYPE_CHECKING:
    from headrace import io
    from headrace.eager_runner import eager
    from headrace.runner import HeadraceOptions, SparkRunner, session, start_session
    from headrace.transforms.thread_safe import thread_safe

__version__ = "0.1.0"
__all__ = [
    "HeadraceOptions", "SparkRunner", "__version__", "eager", "io", "session", "start_session",
    "thread_safe", "time_sorted", "traits",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import runner and `io` when they are first asked for: workers must not pull in pyspark."""
    if name in ("SparkRunner", "HeadraceOptions", "session", "start_session"):
        with quietly():
            from headrace import runner

        return getattr(runner, name)
    if name == "eager":
        from headrace.eager_runner import eager

        return eager
    if name == "thread_safe":
        from headrace.transforms.thread_safe import thread_safe

        return thread_safe
    if name == "io":
        return importlib.import_module("headrace.io")
    msg = f"module 'headrace' has no attribute {name!r}"
    raise AttributeError(msg)


undo_beams_handler()
