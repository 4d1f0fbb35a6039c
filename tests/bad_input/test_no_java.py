"""Without a usable Java the user is told so at once, and how to get one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(60, func_only=True)

PROGRAM = """
import apache_beam as beam
from headrace import SparkRunner
with beam.Pipeline(runner=SparkRunner()) as p:
    p | beam.Create([1])
"""


def run_without_java(folder: Path, java_home: Path | None) -> tuple[str, float]:
    """Run a pipeline in a process that finds no java on its path; give stderr and seconds."""
    hidden = ("JAVA_HOME", "SPARK_HOME", "PATH")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment["PATH"] = str(folder)
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=folder,
        capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr, time.monotonic() - start


@pytest.mark.parametrize("home", [None, "nowhere"], ids=["no JAVA_HOME", "JAVA_HOME is wrong"])
def test_missing_java_is_a_session_error_with_the_remedy(tmp_path: Path, home: str | None) -> None:
    errors, seconds = run_without_java(tmp_path, tmp_path / home if home else None)
    last = errors.strip().splitlines()[-1]
    assert last.startswith("headrace.errors.SessionError: Spark needs Java 17 or newer")
    assert "Install a JRE 17" in last
    assert "JAVA_HOME" in last
    assert seconds < 40  # most of it is the import of Beam; nothing waits for a JVM


def test_an_old_java_is_named_with_its_version(tmp_path: Path) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho \'openjdk version "1.8.0_292"\' >&2\n', encoding="utf-8")
    java.chmod(0o755)
    errors, _ = run_without_java(tmp_path, tmp_path / "old")
    last = errors.strip().splitlines()[-1]
    assert "headrace.errors.SessionError: Spark needs Java 17 or newer" in last
    assert f"{java} is Java 8" in last
