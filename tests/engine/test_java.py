"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.spark.java import java_version
from headrace.errors import SessionError

VERSIONS = {
    "8": 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment (build 1.8.0_392-b08)',
    "11": 'openjdk version "11.0.21" 2023-10-17',
    "17": 'openjdk version "17.0.9" 2023-10-17\nOpenJDK Runtime Environment (build 17.0.9+9)',
    "21": 'java version "21.0.1" 2023-10-17 LTS',
    "25": 'openjdk version "25-ea" 2025-09-16',
}


def fake_java(folder: Path, text: str) -> Path:
    """Make a `java` that says this version on stderr, as real ones do."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture(params=["JAVA_HOME", "PATH"])
def install(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a fake Java the one in use, by either way to find one."""

    def do(text: str) -> Path:
        java = fake_java(tmp_path, text)
        if request.param == "JAVA_HOME":
            monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        else:
            monkeypatch.delenv("JAVA_HOME", raising=False)
            monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
        return java

    return do


@pytest.mark.parametrize("major", ["17", "21", "25"])
def test_a_java_that_is_new_enough_is_taken(install: Any, major: str) -> None:
    install(VERSIONS[major])
    assert java_version() == VERSIONS[major].splitlines()[0]


def test_options_that_java_has_picked_up_are_not_its_version(install: Any) -> None:
    install(f'Picked up JAVA_TOOL_OPTIONS: -Dname="11.0 beta"\n{VERSIONS["17"]}')
    assert java_version() == VERSIONS["17"].splitlines()[0]


@pytest.mark.parametrize("major", ["8", "11"])
def test_a_java_that_is_too_old_is_refused_with_its_version(install: Any, major: str) -> None:
    java = install(VERSIONS[major])
    with pytest.raises(SessionError, match=f"{java} is Java {major}") as caught:
        java_version()
    assert "Install a JRE 17" in str(caught.value)


def test_a_java_that_says_nothing_is_refused(install: Any) -> None:
    install("")
    with pytest.raises(SessionError, match="Spark needs Java 17 or newer"):
        java_version()


@pytest.mark.parametrize("home", [None, "absent"], ids=["unset", "wrong"])
def test_a_missing_java_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if home is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    with pytest.raises(SessionError, match=r"none was found.*apt-get install openjdk-17"):
        java_version()
