"""Decides which modules of the wheel belong to the suites: those whose tests build pipelines.

Reads source text only; imports no test. The folder of the wheel is `FOLDER`.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_SPEC = importlib.util.find_spec("apache_beam")
assert _SPEC is not None and _SPEC.origin is not None
FOLDER = Path(_SPEC.origin).parent

#: A pipeline is made by name, or by a list that is piped into a transform.
BUILDS = re.compile(r"Pipeline\(|[\])}]\s*\|\s*[\w'\"(]|\.run\(")


def modules(patterns: Iterable[str] = ()) -> Iterator[str]:
    """Give the modules whose names fit a pattern (all: none given), as `transforms.core_test`."""
    wanted = [f"{pattern}*" for pattern in patterns] or ["*"]
    for path in sorted(FOLDER.rglob("*_test.py")):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        if not any(fnmatch.fnmatch(name, pattern) for pattern in wanted):
            continue
        if BUILDS.search(path.read_text(encoding="utf-8")):
            yield name
