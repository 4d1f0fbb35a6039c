"""Makes an environment for each package, with its source distribution, and finds it again.

An environment lies in the user's cache folder, under the package's name and version. It sees
headrace's own environment behind its own packages, by a path file: so Beam and Spark are the ones
that headrace has, and what the package asks for besides comes first. Runs no test.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.lab.environments import cache, make, pip
from headrace.lab.experiments.user_suites.packages import Package

#: Sorts behind the path files of packages.
PATH_FILE = "zz-headrace.pth"


@dataclass(frozen=True, slots=True)
class PackageEnvironment:
    """Where a package lives."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def source(self) -> Path:
        """The unpacked source distribution."""
        return self.folder / "source"


def environment_of(package: Package) -> PackageEnvironment:
    """Give where a package's environment is, there or not."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return PackageEnvironment(cache() / f"user-{package.name}-{package.version}-python{version}")


def made_environment(package: Package, told: Callable[[str], None]) -> PackageEnvironment:
    """Make the environment of a package, if it is not there.

    Raises:
        OptionError: pip has failed; says its last words.
    """
    environment = environment_of(package)
    if not environment.python.is_file():
        told(f"{package.name}: making {environment.folder}; this takes a minute or two")
        make(environment.folder, lambda making: _fill(making, package))
    return environment


def _fill(making: Path, package: Package) -> None:
    python = making / "bin" / "python"
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(making)}))
    ours = sysconfig.get_path("purelib")
    (inside / PATH_FILE).write_text(f"{ours}\n", encoding="utf-8")
    fetched = making / "fetched"
    # The file alone: what it asks for is looked at when it is installed.
    pip(python, "download", "--no-deps", "--no-binary", package.name, "--dest", str(fetched),
        package.requirement)  # fmt: skip
    (archive,) = fetched.iterdir()
    unpack(archive, making / "source")
    extras = f"[{package.extras}]" if package.extras else ""
    pip(python, "install", f"{archive}{extras}", *package.needs)
    shutil.rmtree(fetched)


def unpack(archive: Path, into: Path) -> None:
    """Unpack a source distribution, without the folder that all of it lies in."""
    beside = into.with_name(f"{into.name}-parts")
    with tarfile.open(archive) as file:
        file.extractall(beside, filter="data")
    (inner,) = beside.iterdir()
    inner.rename(into)
    beside.rmdir()
