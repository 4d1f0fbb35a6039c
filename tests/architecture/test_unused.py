"""Every function, class and constant of a module has a use outside the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("headrace", "examples")
#: Names that others use than these modules, with the reason.
FOR_TESTS = {
    "headrace/lab/experiments/beam_suites/plugin.py: pytest_addoption": "pytest calls it",
    "headrace/lab/experiments/beam_suites/plugin.py: pytest_configure": "pytest calls it",
    "headrace/lab/experiments/user_suites/absl_flags.py: pytest_configure": "pytest calls it",
    "headrace/lab/workloads/nexmark/winning_bids.py: Winner": "names the fields of a plain tuple",
}


@cache
def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def top_level(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (t.id for t in targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def used(tree: ast.Module) -> Iterator[str]:
    """Give the names that a module loads, imports, or has in a text that is no docstring."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names)
            case ast.Constant(value=str(text)) if id(node) not in docs:
                yield from re.findall(r"\w+", text)


def unused() -> list[str]:
    uses = Counter(name for tree in trees().values() for name in used(tree))
    return [
        f"{path}: {name}"
        for path, tree in trees().items()
        if path.startswith("headrace/")
        for name in top_level(tree)
        if not uses[name] and not (name.startswith("__") and name.endswith("__"))
    ]


def test_no_name_of_a_module_is_left_without_a_use() -> None:
    assert [name for name in unused() if name not in FOR_TESTS] == []


def test_every_exception_is_still_one() -> None:
    assert set(FOR_TESTS) - set(unused()) == set()
