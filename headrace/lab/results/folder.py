"""The folder of one run. Nothing in it is ever overwritten, and no run gets another one's folder."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.errors import OptionError
from headrace.lab.results.samples import Kept, TrialSamples, queues_table, results_table, series_of
from headrace.lab.results.summary import Summary, read_summary

SPEC, ENVIRONMENT, SUMMARY = "spec.toml", "environment.json", "summary.json"
RESULTS, QUEUES = "results.parquet", "queues.parquet"
_PACKAGES = ("headrace", "apache-beam", "pyspark", "pyarrow", "numpy", "apache-flink")


class RunFolder:
    """One run's folder.

    Args:
        path: of the folder, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, root: Path, name: str, started: datetime) -> RunFolder:
        """Make a new folder below `root`, named by time and name."""
        stem = f"{started.astimezone(timezone.utc):%Y-%m-%dT%H%M%S}-{name}"
        root.mkdir(parents=True, exist_ok=True)
        for turn in range(1, 1_000):
            path = root / (stem if turn == 1 else f"{stem}-{turn}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return cls(path)
        msg = f"{root} has a thousand runs of this name and second"
        raise OptionError(msg)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the folder of a run that has ended.

        Raises:
            OptionError: it is none.
        """
        if not (path / SUMMARY).is_file():
            msg = f"{path} is not the folder of a run: there is no {SUMMARY} in it"
            raise OptionError(msg)
        return cls(path)

    def write(self, name: str, text: str) -> None:
        """Write a file that is not there yet."""
        with (self.path / name).open("x", encoding="utf-8") as file:
            file.write(text)

    def write_environment(self) -> None:
        """Write down where the run is made."""
        self.write(ENVIRONMENT, json.dumps(environment(), indent=1) + "\n")

    def write_samples(self, kept: Iterable[Kept]) -> None:
        """Write the raw samples."""
        trials = list(kept)
        for name, table in ((RESULTS, results_table(trials)), (QUEUES, queues_table(trials))):
            with (self.path / name).open("xb") as file:
                pq.write_table(table, file, compression="zstd")

    def write_summary(self, summary: Summary) -> None:
        """Write the figures; the last file of a run, by which it is known to have ended."""
        self.write(SUMMARY, summary.to_json())

    def spec(self) -> str:
        """Give the text of the spec."""
        return (self.path / SPEC).read_text(encoding="utf-8")

    def environment(self) -> dict[str, Any]:
        """Give where the run was made."""
        found: dict[str, Any] = json.loads((self.path / ENVIRONMENT).read_text(encoding="utf-8"))
        return found

    def summary(self) -> Summary:
        """Give the figures."""
        path = self.path / SUMMARY
        return read_summary(path.read_text(encoding="utf-8"), str(path))

    def series(self) -> list[TrialSamples]:
        """Give the raw samples, trial by trial."""
        return series_of(pq.read_table(self.path / RESULTS), pq.read_table(self.path / QUEUES))


def environment() -> dict[str, Any]:
    """Say what machine and versions these are; no name of the machine or of its user."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(), "implementation": sys.implementation.name,
        "system": platform.system(), "release": platform.release(),
        "machine": platform.machine(), "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(), "packages": versions,
    }


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
