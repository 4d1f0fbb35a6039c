"""The image file of examples/, as far as it can be held to its word without a Docker daemon."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import tomllib
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "examples" / "image"
#: Filled by the commands at the head of the file.
MADE = "examples/image/wheels"


def steps() -> list[tuple[str, str]]:
    """The instructions of the file, in order, each with what stands behind it."""
    text = (IMAGE / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]  # type: ignore[misc]


def pips() -> list[list[str]]:
    run = next(rest for word, rest in steps() if word == "RUN")
    return [shlex.split(part) for part in run.split("&&") if " pip install " in part]


def test_everything_that_is_copied_is_there() -> None:
    copied = [rest.split()[0] for word, rest in steps() if word == "COPY"]
    assert MADE in copied and len(copied) == 3
    assert all((ROOT / source).exists() for source in copied if source != MADE)


def test_nothing_is_fetched_while_it_is_built() -> None:
    assert {word for word, _ in steps()} == {
        "ARG", "FROM", "COPY", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT"
    }  # fmt: skip
    assert len(pips()) == 2
    for line in pips():
        assert {"--no-index", "--find-links", "--no-deps"} <= set(line)
    run = next(rest for word, rest in steps() if word == "RUN")
    assert not re.search(r"curl|wget|apt|://", run)


def test_what_headrace_asks_for_is_in_the_lock_that_is_installed() -> None:
    assert "--require-hashes" in pips()[0] and pips()[1][-1] == "headrace"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in project["dependencies"]:
        asked = Requirement(line)
        assert asked.specifier.contains(locked[asked.name]), line


def started(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """Run the entry point with a `java` and a `spark-submit` that print what they are given."""
    (folder / "bin").mkdir()
    for name in ("java", "bin/spark-submit"):
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        tool.chmod(0o755)
    done = subprocess.run(
        ["sh", str(IMAGE / "entrypoint.sh"), *arguments],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": str(folder), **variables},
        capture_output=True, text=True, timeout=30, check=True,
    )
    return done.stdout.splitlines()


def test_an_executor_is_started_with_what_spark_says_in_the_environment(tmp_path: Path) -> None:
    given = started(
        tmp_path, "executor", SPARK_JAVA_OPT_0="-Da=b c", SPARK_JAVA_OPT_1="-Dd=e",
        SPARK_EXECUTOR_MEMORY="1g", SPARK_DRIVER_URL="spark://d", SPARK_EXECUTOR_ID="7",
        SPARK_EXECUTOR_CORES="2", SPARK_APPLICATION_ID="app", SPARK_EXECUTOR_POD_IP="10.0.0.2",
        SPARK_RESOURCE_PROFILE_ID="0", SPARK_EXECUTOR_POD_NAME="pod",
    )
    assert given[:5] == ["java", "-Da=b c", "-Dd=e", "-Xms1g", "-Xmx1g"]
    assert given[given.index("--executor-id") + 1] == "7"


def test_a_driver_is_submitted_in_its_own_pod(tmp_path: Path) -> None:
    given = started(
        tmp_path, "driver", "--class", "x", "local:///app.py", "a b",
        SPARK_DRIVER_BIND_ADDRESS="10.0.0.1",
    )
    assert given == [
        "bin/spark-submit", "--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode",
        "client", "--class", "x", "local:///app.py", "a b",
    ]  # fmt: skip


def test_anything_else_is_run_as_it_is(tmp_path: Path) -> None:
    assert started(tmp_path, "echo", "a  b") == ["a  b"]
