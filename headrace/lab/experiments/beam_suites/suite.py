"""Which tests a run takes and where: an interpreter, a folder of modules, pytest's settings.

A `Suite` goes to each process of a run as a line of JSON. Runs nothing, and knows no runner.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.lab.commands import PACKAGES
from headrace.lab.experiments.beam_suites.discover import FOLDER
from headrace.lab.experiments.beam_suites.exceptions import FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one package."""

    python: str  # the interpreter, of the environment in which the package is installed
    root: str  # modules are named by their dotted paths below this folder
    folder: str  # in which tests run: some read files by names that begin there
    table: str  # the table of exceptions, a file
    options: tuple[str, ...]  # pytest's, besides those that every suite has
    path: tuple[str, ...] = ()  # folders in which workers find modules, before all others

    def file_of(self, module: str) -> Path:
        """Give the file of a module."""
        return Path(self.root).joinpath(*module.split(".")).with_suffix(".py")

    def as_text(self) -> str:
        """Write the suite as a line."""
        return json.dumps(asdict(self))


def read_suite(text: str) -> Suite:
    """Read what `as_text` wrote."""
    raw = json.loads(text)
    return Suite(**raw | {"options": tuple(raw["options"]), "path": tuple(raw["path"])})


def beams_own() -> Suite:
    """The tests of Beam's wheel, by the rules of Beam's own pytest settings, which it lacks."""
    return Suite(
        python=sys.executable,
        root=str(FOLDER),
        folder=str(PACKAGES),
        table=str(FILE),
        options=(
            f"--rootdir={FOLDER.parent}",
            "--import-mode=importlib",
            "--suites-all-type-checks",
            "-o",
            "python_functions=",  # helpers are no tests
        ),
    )
