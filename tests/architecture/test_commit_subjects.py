"""The subject of a commit can be read whole in a list: by the hook, and in what was committed."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "scripts" / "commit_subject.py"
MOST_CHARACTERS = 72
#: Earlier subjects are longer here and there; history is not rewritten for them.
SINCE = datetime(2026, 11, 19, 13, 40, tzinfo=timezone.utc)


def subjects() -> list[tuple[str, str]]:
    """Commit and subject of all that was committed since; skips where there is no history."""
    command = ["git", "-C", str(ROOT), "log", "--format=%ct %h %s"]
    try:
        # The history of a repository around us, or of none at all, is not ours.
        if not (ROOT / ".git").exists():
            pytest.skip("there is no history here: the tree was not cloned")
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot read the history: {error}")
    found = (line.split(" ", 2) for line in told.stdout.splitlines())
    return [(name, subject) for at, name, subject in found if int(at) >= SINCE.timestamp()]


def refused(message: str, path: Path) -> str:
    """What the hook says of a message; empty if it lets it pass."""
    path.write_text(message, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(HOOK), str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def test_no_subject_since_the_rule_is_longer_than_a_line() -> None:
    assert [found for found in subjects() if len(found[1]) > MOST_CHARACTERS] == []


def test_the_hook_lets_the_longest_subject_pass_and_no_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    body = "\n\n" + "b" * 100 + "\n"
    assert refused("x" * MOST_CHARACTERS + body, path) == ""
    assert "has 73 characters" in refused("x" * (MOST_CHARACTERS + 1) + body, path)


def test_the_hook_counts_characters_and_passes_over_comments(tmp_path: Path) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    assert refused("# " + "c" * 100 + "\n\n" + "ü" * MOST_CHARACTERS + "\n", path) == ""
    assert "has 73 characters" in refused("\n\n" + "x" * 73, path)
