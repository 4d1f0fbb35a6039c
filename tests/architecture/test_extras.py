"""What only the tests need is not needed to import the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
#: Loaded by pytest alone.
BY_PYTEST = {"headrace/lab/experiments/beam_suites/plugin.py": {"pytest"}}


def names_of(lines: list[str]) -> set[str]:
    return {re.split(r"[<>=!~ \[;]", line, maxsplit=1)[0].lower() for line in lines}


def only_for_tests() -> set[str]:
    """The distributions that no other part of pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return names_of(extras["test"]) - names_of([*project["dependencies"], *extras["lab"]])


def at_import(node: ast.AST) -> Iterator[str]:
    """The top-level names that a module imports when it is loaded: not in functions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]
            case _:
                yield from at_import(child)


def test_no_module_needs_a_package_of_the_tests_to_be_imported() -> None:
    known = {
        name: {each.lower() for each in distributions}
        for name, distributions in packages_distributions().items()
    }
    tests = only_for_tests()
    assert "pytest" in tests and "psutil" not in tests
    found = {}
    for path in sorted((ROOT / "headrace").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        used = set(at_import(ast.parse(path.read_text(encoding="utf-8"))))
        theirs = {each for each in used if known.get(each, {each}) & tests}
        if theirs != BY_PYTEST.get(name, set()):
            found[name] = theirs
    assert found == {}
