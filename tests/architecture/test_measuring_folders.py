"""The table of measuring folders in docs/architecture.md, held against their imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def read_rows(page: str) -> dict[str, set[str]]:
    """Give for each measuring folder those that it may import."""
    part = page.partition("### The folders that measure")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", part, re.M)
    return {folder: set(re.findall(r"`(\w+)`", names)) for folder, names in rows}


ROWS = read_rows((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


def imported_by(folder: Path) -> set[str]:
    """Give the top-level names that any module below a folder imports."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_every_measuring_folder_has_a_row() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders - {"headrace", "tests", "examples"} == set(ROWS)


@pytest.mark.parametrize("folder", sorted(ROWS))
def test_a_measuring_folder_imports_what_its_row_allows(folder: str) -> None:
    used = imported_by(ROOT / folder) & set(ROWS)
    assert used - {folder} <= ROWS[folder]


def test_the_package_imports_no_measuring_folder() -> None:
    assert not imported_by(ROOT / "headrace") & set(ROWS)


def test_no_two_folders_import_each_other() -> None:
    def reached(start: str) -> set[str]:
        found, waiting = set[str](), [start]
        while waiting:
            for name in ROWS[waiting.pop()] - found:
                found.add(name)
                waiting.append(name)
        return found

    assert not [folder for folder in ROWS if folder in reached(folder)]
