"""Brings the user's own code to the executors: setup file, requirements, extra packages.

Takes what Beam's setup options name and what the executors have already, gives one zip of pure
Python. pip decides versions and builds wheels; nothing is installed anywhere.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name as normal

from headrace.engine.spark.archives import wheel_files, workshop, write_zip
from headrace.engine.spark.doors import Door
from headrace.errors import PackagingError

_LOG = logging.getLogger(__name__)

#: A download or build that takes longer has most likely lost its network.
PIP_SECONDS = 600
#: The first major version of setuptools that makes wheels with no other package's help.
WHEELS_SINCE = 71
#: Lines of pip's own words that an error repeats.
PIP_LINES = 12
#: Top-level folders of a project that a build makes or that are no part of it; a stale `build`
#: would bring deleted modules back.
NOT_SOURCE = ("build", "dist", ".venv", "venv", ".tox", "*.egg-info", "__pycache__")

_INCLUDE = re.compile(r"\s*(-r|--requirement|-c|--constraint)[\s=]+(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a pipeline's options ask to be brought to the executors."""

    setup_file: str | None = None  # a setup.py or pyproject.toml; its folder is the project
    requirements_file: str | None = None
    extra_packages: tuple[str, ...] = ()  # wheels and source archives on this machine

    def files(self) -> Iterator[tuple[str, str]]:
        """Give every file that must exist, with the option that names it."""
        if self.setup_file is not None:
            yield "--setup_file", self.setup_file
        if self.requirements_file is not None:
            yield "--requirements_file", self.requirements_file
        for path in self.extra_packages:
            yield "--extra_package", path


def provide(needs: Needs, door: Door) -> None:
    """Bring everything the pipeline needs to the workers of a session."""
    check_files(needs, may_lack_project=door.is_local)
    if needs.setup_file is not None and not Path(needs.setup_file).is_file():
        # Workers of a local master are this Python: what it can import they can, as in Beam's own
        # local runner, which does not look either.
        _LOG.warning(
            "--setup_file=%s: there is no such file, so nothing is built of it; on a cluster this "
            "is refused", needs.setup_file,
        )
        needs = replace(needs, setup_file=None)
    if needs == Needs():
        return
    archive = build_archive(needs, door.distributions(), workshop())
    if archive is not None:
        door.send(archive)


def check_files(needs: Needs, *, may_lack_project: bool = False) -> None:
    """Refuse options that name no file, before anything starts.

    Args:
        needs: the options.
        may_lack_project: a setup file need not be there: workers are this Python.
    """
    for option, path in needs.files():
        lacks = may_lack_project and path == needs.setup_file
        if not lacks and not Path(path).is_file():
            msg = f"{option}={path}: there is no such file"
            raise PackagingError(msg)
    if needs.setup_file and Path(needs.setup_file).name not in ("setup.py", "pyproject.toml"):
        msg = f"--setup_file={needs.setup_file}: must be named setup.py or pyproject.toml"
        raise PackagingError(msg)


def build_archive(needs: Needs, present: Mapping[str, str], folder: Path) -> Path | None:
    """Build a zip of all that is asked for and not present; None if that is nothing."""
    with tempfile.TemporaryDirectory(prefix="headrace-build-") as scratch:
        wheels = _collect(needs, present, Path(scratch))
        files: dict[str, bytes] = {}
        for wheel in wheels:
            files.update(wheel_files(wheel))
    return write_zip("packages", files, folder) if files else None


def _collect(needs: Needs, present: Mapping[str, str], scratch: Path) -> list[Path]:
    """Let pip make wheels of what is asked for, then of what those need, until none is new."""
    fixed: list[str] = [str(Path(path).resolve()) for path in needs.extra_packages]
    if needs.setup_file is not None:
        fixed.append(str(_build_project(Path(needs.setup_file), scratch)))
    lines = _thinned(needs, present)
    if lines:
        thinned = scratch / "requirements.txt"
        thinned.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fixed += _pinned(thinned) if any("--hash" in line for line in lines) else [
            "--requirement", str(thinned),
        ]
    if not fixed:
        return []
    wanted: dict[str, None] = {}  # requirements of requirements, in the order they were met
    for turn in range(100):
        folder = scratch / f"wheels-{turn}"
        # All requirements in one call: pip then sees two that cannot both hold.
        run_pip([*fixed, *wanted], folder)
        wheels = sorted(folder.glob("*.whl"))
        asked = [*lines, *wanted]
        found = [need for wheel in wheels for need in requirements_of(wheel, asked, present)]
        if all(need in wanted for need in found):
            return wheels
        wanted.update(dict.fromkeys(found))
    msg = "the requirements of the pipeline's packages have no end"
    raise PackagingError(msg)


def _thinned(needs: Needs, present: Mapping[str, str]) -> list[str]:
    file = needs.requirements_file
    return thin_requirements(Path(file), present) if file is not None else []


def _pinned(requirements: Path) -> list[str]:
    """Fetch a file with hashes in a call of its own: beside it pip accepts nothing without one."""
    folder = requirements.parent / "pinned"
    run_pip(["--requirement", str(requirements)], folder)
    return [str(wheel) for wheel in sorted(folder.glob("*.whl"))]


def _build_project(setup_file: Path, scratch: Path) -> Path:
    """Build the wheel of a project from a copy, so that its folder stays as it was."""
    source = setup_file.resolve().parent
    copy, folder = scratch / "project", scratch / "project-wheel"
    shutil.copytree(source, copy, ignore=_ignore_at(source), symlinks=True)
    # A project that names no build system is built with the setuptools at hand, as by
    # `python setup.py`, if that can make wheels; then no network is needed.
    here = not (copy / "pyproject.toml").exists() and _setuptools_major() >= WHEELS_SINCE
    run_pip([*(["--no-build-isolation", "--use-pep517"] if here else []), str(copy)], folder)
    return next(folder.glob("*.whl"))


def _setuptools_major() -> int:
    try:
        return int(metadata.version("setuptools").partition(".")[0])
    except (metadata.PackageNotFoundError, ValueError):
        return 0


def _ignore_at(top: Path) -> Any:
    patterns = shutil.ignore_patterns(*NOT_SOURCE)
    return lambda folder, names: patterns(folder, names) if Path(folder) == top else ()


def run_pip(arguments: Sequence[str], folder: Path) -> None:
    """Make wheels, one for each argument and none for what those require."""
    if importlib.util.find_spec("pip") is None:
        msg = (
            f"--setup_file, --requirements_file and --extra_package need pip, and {sys.executable} "
            "has none. Install it with: python -m ensurepip"
        )
        raise PackagingError(msg)
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-input", "--quiet",
        "--disable-pip-version-check", "--wheel-dir", str(folder), *arguments,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PIP_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        msg = f"pip gave no wheels within {PIP_SECONDS} s for: {' '.join(arguments)}"
        raise PackagingError(msg) from None
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        msg = (
            "pip could not make the packages that the pipeline needs. Mend the requirement, or "
            "install the package in the executors' Python. pip said:\n"
            + "\n".join(said[-PIP_LINES:])
        )
        raise PackagingError(msg)


def thin_requirements(path: Path, present: Mapping[str, str]) -> list[str]:
    """Give a requirements file's lines without what the executors have already.

    Options stay, with the paths of included files made absolute; a file of options alone is empty.
    """
    kept: list[str] = []
    asks = False
    text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
    for line in text.splitlines():
        bare = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not bare:
            continue
        include = _INCLUDE.match(bare)
        if include:
            kept.append(f"{include.group(1)} {(path.parent / include.group(2)).resolve()}")
            asks = asks or include.group(1) in ("-r", "--requirement")
            continue
        if bare.startswith("--") or (bare.startswith("-") and not bare.startswith("-e")):
            kept.append(bare)
            continue
        need = _parsed(bare)
        if need is not None and need.url is None and normal(need.name) in present:
            _compare(bare, need, present[normal(need.name)])
            continue
        kept.append(bare)
        asks = True
    return kept if asks else []


def _parsed(line: str) -> Requirement | None:
    """Read a line of a requirements file; None: it is a path, or an option of pip's."""
    try:
        return Requirement(line.split(" --")[0])  # such as --hash=...
    except InvalidRequirement:
        return None


def _compare(line: str, need: Requirement, version: str) -> None:
    if not need.specifier.contains(version, prereleases=True):
        _LOG.warning(
            "%s is asked for, but %s %s is installed where the pipeline runs and is used",
            line, normal(need.name), version,
        )


def requirements_of(
    wheel: Path, asked: Sequence[str], present: Mapping[str, str]
) -> Iterator[str]:
    """Give what a wheel requires and the executors lack, as arguments for pip.

    Markers are judged here, as pip no longer knows who asked for an extra.
    """
    with zipfile.ZipFile(wheel) as archive:
        info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        facts = HeaderParser().parsestr(archive.read(info).decode())
    extras = {e for need in asked for e in _extras_of(need, normal(facts["Name"]))}
    for line in facts.get_all("Requires-Dist") or ():
        need = Requirement(line)
        if normal(need.name) in present:
            continue
        marker, need.marker = need.marker, None
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield str(need)


def _extras_of(line: str, name: str) -> set[str]:
    need = _parsed(line)
    return need.extras if need is not None and normal(need.name) == name else set()
