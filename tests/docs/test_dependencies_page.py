"""docs/dependencies.md against pyproject.toml and requirements.lock."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]


def declared() -> set[str]:
    """Every package named in pyproject.toml, for use and for work on the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    return {re.split(r"[<>=!~ \[;]", line, maxsplit=1)[0] for line in lines}


def test_every_dependency_has_its_reason_and_no_reason_lacks_a_dependency() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)` \| [^|]+ \| \S[^|]+ \|$", page, flags=re.MULTILINE)
    assert set(explained) == declared()


def test_every_dependency_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    locked = {entry.partition("==")[0]: entry for entry in entries}
    assert declared() <= locked.keys()
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_lock_names_no_place_to_download_from() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    assert not re.search(r"^\s*-", re.sub(r"^\s+--hash=.*$", "", lock, flags=re.M), flags=re.M)
