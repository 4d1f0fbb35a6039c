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
    assert [hook["entry"] for hook in hooks()] == [f"make {name}" for name in targets.split()]


def test_no_hook_needs_a_network() -> None:
    assert {hook["language"] for hook in hooks()} == {"system"}
