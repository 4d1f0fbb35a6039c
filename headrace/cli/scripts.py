"""A user's script, loaded as `python script.py` would load it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def as_main(script: Path, arguments: list[str]) -> Iterator[None]:
    """Arguments and import path as Python sets them for a script."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
