"""Reads back what a sink has written as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.lab.workload import Column


def read_json_lines(path: Path | str, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Give the rows of a file, their fields in the order of the columns."""
    with Path(path).open(encoding="utf-8") as file:
        return [tuple(json.loads(line)[column.name] for column in columns) for line in file]
