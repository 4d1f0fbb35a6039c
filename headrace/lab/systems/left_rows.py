"""Rows of a run whose steps have processes of their own: a file for each, lines of JSON.

A step writes them with the times at which they left; `read_left` reads them when the run is over.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

import apache_beam as beam

from headrace.lab.workload import Row


class Leave(beam.DoFn):  # type: ignore[misc]
    """Writes rows to a file, or only how many there were.

    Args:
        folder: that is there.
        keeps: the rows; else one line for each bundle, with their number.
        at_once: a row is written when it comes, not with others.
    """

    def __init__(self, folder: str, *, keeps: bool, at_once: bool) -> None:
        self._folder, self._keeps, self._at_once = folder, keeps, at_once
        self._file: Any = None
        self._count = 0

    def setup(self) -> None:
        """Open a file that nobody else has."""
        name = f"{os.getpid()}-{uuid.uuid4().hex}.jsonl"
        buffering = 1 if self._at_once else -1
        self._file = open(Path(self._folder, name), "w", buffering=buffering, encoding="utf-8")

    def start_bundle(self) -> None:
        """Count from zero."""
        self._count = 0

    def process(self, row: Any) -> None:
        """Write a row, with the time."""
        self._count += 1
        if self._keeps:
            self._file.write(json.dumps([time.time(), *row], default=_plain) + "\n")

    def finish_bundle(self) -> None:
        """Let others see what is written."""
        if not self._keeps:
            self._file.write(f"{self._count}\n")
        self._file.flush()

    def teardown(self) -> None:
        """Close the file."""
        self._file.close()


def _plain(value: Any) -> Any:
    return value.item()  # a number of NumPy's


def read_left(folder: Path) -> tuple[list[tuple[float, Row]], int]:
    """Give the rows that were kept, with the times at which they left, and how many there were."""
    kept: list[tuple[float, Row]] = []
    counted = 0
    for path in sorted(folder.iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            if isinstance(told, int):
                counted += told
            else:
                kept.append((told[0], tuple(told[1:])))
    return kept, counted + len(kept)
