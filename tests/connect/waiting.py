"""Waits for what a pipeline on a server does, for as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Return as soon as it is true; fail if it is not in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
