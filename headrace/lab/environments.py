"""Environments of systems that cannot share headrace's: makes them, and finds them again.

PyFlink wants other versions of Beam and Arrow than headrace has. Its environment lies in the cache
folder of the user, under a name with its version, and is made by `headrace lab install`. It is made
beside its place and moved there when it is whole.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.errors import OptionError

#: What is installed for a system: requirements of pip's.
PACKAGES: Mapping[str, tuple[str, ...]] = {"pyflink": ("apache-flink==2.3.0",)}
#: Names the interpreter of an environment that somebody has made elsewhere.
VARIABLE = "HEADRACE_LAB_{}_PYTHON"


class NotInstalledError(OptionError):
    """A system is not there; says what installs it."""


def folder_of(system: str) -> Path:
    """Give where the environment of a system lies, there or not."""
    (first, *_) = PACKAGES[system]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache() / f"{first.replace('==', '-')}-python{version}"


def cache() -> Path:
    """Give the folder in which environments lie, there or not."""
    told = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return told / "headrace" / "lab"


def python_of(system: str) -> Path:
    """Give the interpreter of a system's environment.

    Raises:
        NotInstalledError: there is none.
    """
    told = os.environ.get(VARIABLE.format(system.upper()))
    python = Path(told) if told else folder_of(system) / "bin" / "python"
    if not python.is_file():
        msg = f"{' '.join(PACKAGES[system])} is not installed: headrace lab install {system}"
        raise NotInstalledError(msg)
    return python


def install(system: str, told: Callable[[str], None] = lambda _text: None) -> Path:
    """Make the environment of a system, if it is not there; give its folder.

    Raises:
        OptionError: there is no such system, or pip has failed; says its last words.
    """
    if system not in PACKAGES:
        msg = f"{system!r} needs no environment of its own; those that do: {', '.join(PACKAGES)}"
        raise OptionError(msg)
    folder = folder_of(system)
    if (folder / "bin" / "python").is_file():
        return folder

    def fill(making: Path) -> None:
        told(f"installing {' '.join(PACKAGES[system])}, some 600 MB; this takes minutes")
        pip(making / "bin" / "python", "install", *PACKAGES[system])

    told(f"making {folder}")
    make(folder, fill)
    return folder


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make an environment beside its place, let it be filled, and move it there when it is whole.

    Raises:
        OptionError: a command has failed; says its last words.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        # Copies of scripts name their interpreter; only the interpreter is used, by its path.
        _run([sys.executable, "-m", "venv", str(making)])
        fill(making)
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def pip(python: Path, verb: str, *arguments: str) -> None:
    """Run pip in an environment.

    Raises:
        OptionError: it has failed; says its last words.
    """
    _run([str(python), "-m", "pip", verb, "--quiet", "--disable-pip-version-check", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        msg = f"{' '.join(command[-2:])} failed: {words[-1] if words else done.returncode}"
        raise OptionError(msg)


def surroundings(python: Path) -> dict[str, str]:
    """Give the environment variables of a process in another environment than ours."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "SPARK_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    # What PyFlink starts looks for `python` on the path.
    kept["PATH"] = os.pathsep.join([str(python.parent), kept.get("PATH", "")])
    return kept
