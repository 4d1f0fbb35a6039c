"""Modules out of the collector's sight.

PySpark collects all garbage after every task: 39 ms with Beam loaded, unless what was imported is
frozen. Whether that was done is remembered here: Python's own count of what is frozen walks
through all of it, 10 to 20 ms for each task of a stream.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_modules() -> None:
    """Freeze what is in memory; once in a process and in those forked from it."""
    gc.collect()
    gc.freeze()
