"""The archive of Spark's classes: used where it may be, told to nobody where it does not fit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headrace.engine.spark.class_archive import (
    JARS,
    LEAVE,
    USE,
    _sweep,
    archive_options,
    archive_path,
    cache_folder,
    make_archive,
)
from headrace.engine.spark.java import java_version
from headrace.errors import SessionError
from headrace.state.private import private_folder

JAVA = 'openjdk version "17.0.1"'


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def kept() -> Path:
    path = archive_path(JAVA)
    cache_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.mkdir()
    path.write_bytes(b"classes")
    return path


def test_without_an_archive_nothing_is_asked_of_java() -> None:
    assert archive_options(JAVA, {}) == ""


def test_an_archive_that_is_there_is_used() -> None:
    path = kept()
    assert archive_options(JAVA, {"somewhere": "-Xss4m"}).split()[0] == f"{USE}{path}"


def test_another_java_has_another_archive() -> None:
    kept()
    assert archive_options('openjdk version "21"', {}) == ""


@pytest.mark.parametrize("own", ["-Xshare:off", f"{USE}mine.jsa", f"-Xmx1g {LEAVE}mine.jsa"])
def test_what_a_user_says_of_archives_himself_holds(own: str) -> None:
    kept()
    assert archive_options(JAVA, {"SPARK_SUBMIT_OPTS": own}) == ""


def test_a_folder_that_others_may_enter_is_not_trusted() -> None:
    kept()
    os.chmod(cache_folder(), 0o777)
    assert archive_options(JAVA, {}) == ""
    with pytest.raises(SessionError, match="lets others in"):
        make_archive(JAVA)


def test_a_folder_above_that_others_may_look_into_does_no_harm() -> None:
    """As a script's `mkdir` leaves it; the archive lies in a folder of its own below."""
    cache_folder().parent.mkdir(parents=True, mode=0o755)
    cache_folder().parent.chmod(0o755)
    private_folder(cache_folder())
    path = kept()
    assert archive_options(JAVA, {}).split()[0] == f"{USE}{path}"


def test_archives_of_sparks_that_are_gone_are_removed(tmp_path: Path) -> None:
    path = kept()
    (path.parent / JARS).write_text(str(tmp_path))
    older = path.parent / "older.jsa"
    gone, there = cache_folder() / "spark-gone", cache_folder() / "spark-there"
    for folder, jars in ((gone, tmp_path / "nowhere"), (there, tmp_path)):
        folder.mkdir()
        (folder / JARS).write_text(str(jars))
        (folder / "x.jsa").write_bytes(b"")
    older.write_bytes(b"")
    _sweep(path)
    assert not gone.exists()
    assert (there / "x.jsa").exists()
    assert path.exists() and not older.exists()


@pytest.mark.parametrize("content", [b"", b"rubbish" * 1_000])
def test_java_starts_without_a_word_with_an_archive_that_does_not_fit(content: bytes) -> None:
    java = java_version()
    path = archive_path(java)
    cache_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.mkdir()
    path.write_bytes(content)
    options = archive_options(java, {}).split()
    assert options
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    started = subprocess.run(
        [command, *options, "-version"], capture_output=True, text=True, check=True
    )
    usual = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    # Only its last line says whether classes are shared at all.
    assert started.stderr.splitlines()[:-1] == usual.stderr.splitlines()[:-1]
    assert started.stdout == ""
