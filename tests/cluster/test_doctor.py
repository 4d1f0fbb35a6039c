"""What `headrace doctor` says of a standalone cluster, and of an address where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.standalone import JAVA_OPTIONS, Standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


def doctor(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: this one may have a session."""
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "doctor", *arguments],
        cwd=folder, env={**os.environ, **JAVA_OPTIONS, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_both_executors_of_a_cluster_are_asked(cluster: Standalone, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    done = doctor(tmp_path, f"--spark_master={cluster.master}", f"--checkpoint={place}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"master {cluster.master}, 2 tasks side by side" in done.stdout
    assert done.stdout.count("\nok         worker ") == 2
    assert "a --checkpoint must be a folder that all of them mount" in done.stdout
    assert "2 of 2 workers read what this process writes" in done.stdout
    assert not place.exists()


def test_workers_that_do_not_start_are_told_of_with_the_remedy(
    cluster: Standalone, tmp_path: Path
) -> None:
    done = doctor(
        tmp_path, f"--spark_master={cluster.master}", PYSPARK_PYTHON="/nowhere/python"
    )
    assert done.returncode == 1
    assert "WRONG      workers: " in done.stdout
    assert "there is no program /nowhere/python" in done.stdout
    assert "Point PYSPARK_PYTHON" in done.stdout
