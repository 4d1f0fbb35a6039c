"""What the rooms really load, seen in a process that has loaded nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def loaded_by(*modules: str) -> set[str]:
    """The top-level packages in sys.modules after importing `modules` in a fresh process."""
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module",
    ["headrace", "headrace.plan", "headrace.state", "headrace.compiler", "headrace.worker.entry",
     "headrace.transforms"],
)
def test_a_room_without_spark_loads_no_pyspark(module: str) -> None:
    assert "pyspark" not in loaded_by(module)


@pytest.mark.parametrize("module", ["headrace", "headrace.plan", "headrace.state"])
def test_a_room_without_beam_loads_no_beam(module: str) -> None:
    assert "apache_beam" not in loaded_by(module)


def test_no_extra_is_loaded_by_the_runner() -> None:
    assert not {"opentelemetry", "openlineage"} & loaded_by("headrace.runner", "headrace.testing")


def test_the_probe_sees_pyspark_when_it_is_loaded() -> None:
    assert "pyspark" in loaded_by("pyspark")
