"""What runs before a commit is what `make check` runs, and nothing is fetched for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def hooks() -> list[dict[str, Any]]:
    told = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in told["repos"]] == ["local"]
    found: list[dict[str, Any]] = told["repos"][0]["hooks"]
    return found


def test_the_hooks_are_the_targets_of_make_check_in_its_order() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^check: ([a-z ]+?) ##", makefile, flags=re.MULTILINE)
    before = [hook["entry"] for hook in hooks() if hook["stages"] != ["commit-msg"]]
    assert before == [f"make {name}" for name in targets.split()]


def test_the_message_of_a_commit_is_looked_at_by_a_script_that_is_there() -> None:
    (entry,) = (hook["entry"] for hook in hooks() if hook["stages"] == ["commit-msg"])
    python, script = entry.split()
    assert python == ".venv/bin/python"
    assert (ROOT / script).exists()


def test_every_stage_of_a_hook_is_installed() -> None:
    told = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    stages = {stage for hook in hooks() for stage in hook["stages"]}
    assert set(told["default_install_hook_types"]) == stages


def test_no_hook_needs_a_network() -> None:
    assert {hook["language"] for hook in hooks()} == {"system"}
