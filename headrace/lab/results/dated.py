"""Files of results by date: what every one says of its run, and its figures in the lab's one form.

An experiment that is no run of a spec keeps what it measured in `results/DATE-KIND.json`: its cases
as it likes them, and beside them its figures, each a `Figure`, and the calibration kernels of the
machine, so that two files can be compared as two runs can. A file that is there is never written again.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.commands import ROOT
from headrace.lab.results.summary import Figure, Summary, figure_of
from headrace.lab.statistics.calibration import calibrate

RESULTS = ROOT / "results"
PACKAGES = ("apache-beam", "pyspark", "pyarrow", "numpy", "pandas")


def envelope(
    number: int,
    settings: dict[str, Any],
    today: datetime.date,
    cases: list[Any],
    figures: Iterable[Figure] = (),
) -> dict[str, Any]:
    """Put cases into what every file of results says of its run; `number` is the file's format."""
    return {
        "format": number,
        "date": today.isoformat(),
        "versions": {
            # The package's own name, loaded before any part of it; to import it would let Spark in.
            "headrace": vars(sys.modules["headrace"])["__version__"],
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": machine(),
        "calibration": asdict(calibrate()),
        "settings": settings,
        "figures": [asdict(figure) | {"better": figure.better.value} for figure in figures],
        "cases": cases,
    }


def machine() -> dict[str, Any]:
    """Give what matters about the machine for a rate."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)


def save(content: Any, kind: str, folder: Path = RESULTS) -> Path:
    """Write a new dated file; one that is there is never written again."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2) + "\n"
    number = 1
    while True:
        path = folder / f"{content['date']}-{kind}{'' if number == 1 else f'-{number}'}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            number += 1
            continue
        return path


def named(saved: Path | None) -> str:
    """Say to the reader of a page where its figures are kept, or that they are not."""
    if saved is None:
        return "Of these figures no file is kept."
    return f"All cells: `results/{saved.name}`."


def read_dated(path: Path) -> Summary:
    """Read the figures of a dated file; it knows no systems but by name.

    Without a calibration is one of the time before files had it.

    Raises:
        OptionError: it is no such file, or one of the time before files had figures.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        figures = tuple(figure_of(each) for each in told["figures"])
        return Summary(
            name=path.stem, started=told["date"], seconds=0.0,
            calibration=told.get("calibration", {}), systems=(), figures=figures,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} is no file of results with figures: {error!r}"
        raise OptionError(msg) from error
