"""The wheel, installed in an environment of its own, outside the tree: README's first hour.

Nothing here asks an index. What headrace requires is lent by the interpreter that runs the tests,
through a path file; headrace itself is not, since the editable install of the tree is a path file
too, and those of lent folders are not read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.blocks import read_blocks

ROOT = Path(__file__).parents[2]
#: What a clone does not have, or what would only take time to copy.
NOT_IN_A_CLONE = (".git", ".venv", "build", "dist", "__pycache__", "*.egg-info", ".*_cache")
QUIETLY = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")


def call(*words: object, folder: Path) -> str:
    """Run a command with nothing of the tests' environment that would help it; give its output."""
    helpers = ("PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in helpers}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree, as somebody else would have it."""
    folder = tmp_path_factory.mktemp("clone") / "headrace"
    passed_over = shutil.ignore_patterns(*NOT_IN_A_CLONE)

    def ignored(at: str, names: list[str]) -> set[str]:
        # What was measured is large, and no part of the package; a room of it has the same name.
        return passed_over(at, names) | ({"results"} if Path(at) == ROOT else set())

    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    """README's second way, without the network: the tools to build with are the ones we have."""
    pip = (sys.executable, "-m", "pip", "wheel", *QUIETLY, "--no-build-isolation")
    call(*pip, "--wheel-dir", "dist", ".", folder=clone)
    (made,) = (clone / "dist").glob("headrace-*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has the wheel."""
    folder = tmp_path_factory.mktemp("elsewhere") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    interpreter = folder / "bin" / "python"
    call(
        sys.executable, "-m", "pip", "--python", interpreter, "install", *QUIETLY, wheel,
        folder=folder,
    )
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def members(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    held = members(wheel)
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "headrace").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in held if ".dist-info/" not in name} == ours
    assert "headrace/py.typed" in ours
    assert any(name.startswith("headrace/lab/answers/") for name in ours)
    licences = {name.rpartition("/")[2] for name in held if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


def test_an_installation_from_git_is_the_same(
    clone: Path, wheel: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(clone, source, ignore=shutil.ignore_patterns(*NOT_IN_A_CLONE))
    git = ("git", "-c", "user.name=tests", "-c", "user.email=tests@example.org")
    call(*git, "init", "--quiet", folder=source)
    call(*git, "add", "--all", folder=source)
    call(*git, "commit", "--quiet", "--message", "All", folder=source)
    pip = (sys.executable, "-m", "pip", "install", *QUIETLY, "--no-build-isolation")
    call(*pip, "--target", "env", f"git+file://{source}", folder=tmp_path)
    installed = {
        str(path.relative_to(tmp_path / "env"))
        for path in (tmp_path / "env" / "headrace").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == {name for name in members(wheel) if ".dist-info/" not in name}


def test_what_is_imported_is_the_wheel_and_the_command_is_there(python: Path) -> None:
    elsewhere = python.parents[1]
    where = call(python, "-c", "import headrace; print(headrace.__file__)", folder=elsewhere)
    assert Path(where.strip()).is_relative_to(elsewhere / "lib")
    listed = call(python.parent / "headrace", "list", folder=elsewhere)
    assert "nexmark" in listed


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_first_pipeline_of_the_readme_runs_on_the_wheel(python: Path, tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page.partition("## A pipeline of your own in five minutes\n")[2]
    script = tmp_path / "gauges.py"
    script.write_text(read_blocks(section)[0].source, encoding="utf-8")
    call(python, script.name, folder=tmp_path)
    lines = (tmp_path / "highest").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == ["north 5", "south 4"]
    plan = call(python.parent / "headrace", "explain", script.name, folder=tmp_path)
    assert "highest" in plan
