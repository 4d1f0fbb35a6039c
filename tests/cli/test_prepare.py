"""`headrace prepare`: makes the archive once, and says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.engine.spark import class_archive
from headrace.engine.spark.java import java_version


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was made; Spark itself is not run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found: list[Path] = []

    def make(java: str) -> Path:
        path = class_archive.archive_path(java)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 2_000_000)
        found.append(path)
        return path

    monkeypatch.setattr(class_archive, "make_archive", make)
    return found


def test_it_is_made_once_and_again_where_that_is_asked_for(
    made: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(class_archive.archive_path(java_version()))
    assert main(["prepare"]) == 0
    said = capsys.readouterr().out
    assert path in said and "(2 MB)" in said
    assert main(["prepare"]) == 0
    assert f"kept already, in {path}" in capsys.readouterr().out
    assert main(["prepare", "--again"]) == 0
    assert len(made) == 2
