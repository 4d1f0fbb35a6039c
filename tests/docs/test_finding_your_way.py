"""The page that answers "where is ...?": every file and every symbol on it exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "finding-your-way.md").read_text(encoding="utf-8")
ANSWERS = re.findall(r"^\| (.+\?) \| `([^`]+)` \| `([^`]+)` \|$", PAGE, flags=re.MULTILINE)


def defined(path: Path) -> set[str]:
    """Give the functions and classes of a module, and the methods of its classes."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


def test_there_are_at_least_25_questions_and_every_row_is_one() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| [a-z]", line)]
    assert len([row for row in rows if "where is ..." not in row]) == len(ANSWERS) >= 25
    questions = [question for question, _, _ in ANSWERS]
    assert len({*questions}) == len(questions)


@pytest.mark.parametrize(("question", "file", "symbol"), ANSWERS)
def test_file_and_symbol_exist(question: str, file: str, symbol: str) -> None:
    path = ROOT / file
    assert path.is_file(), question
    assert symbol in defined(path), question


def test_a_symbol_that_is_not_there_would_be_found_out() -> None:
    names = defined(ROOT / "headrace" / "engine" / "epochs.py")
    assert "next_action" in names and "next_move" not in names
