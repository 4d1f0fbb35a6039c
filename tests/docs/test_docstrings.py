"""Runs the examples in the docstrings of the package."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules_with_examples() -> list[str]:
    """The dotted names of the modules whose text shows an interpreter's prompt."""
    found = []
    for path in sorted((ROOT / "headrace").rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_give_what_they_show(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), verbose=False)
    assert outcome.failed == 0
    assert outcome.attempted > 0, "the prompt stands where doctest does not look"
