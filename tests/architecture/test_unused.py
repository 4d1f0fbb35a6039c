"""Every function, class and constant of a module, and what our own classes have, is used there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
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
#: The same of methods and attributes; a star stands for any text.
MEMBERS_FOR_OTHERS = {
    "headrace/io/dataframes.py: DataFrameHandle.dataframe": "users call it",
    "headrace/lab/ending.py: Ending._missing_": "Enum calls it",
    "headrace/lab/experiments/beam_suites/plugin.py: Recorder.pytest_*": "pytest calls them",
    "headrace/lab/measure.py: Measuring._*": "called by the name of an experiment",
    "headrace/lab/workloads/nexmark/coder.py: EventCoder.is_deterministic": "Beam calls it",
    "headrace/testing/frames.py: LocalFrame.toPandas": "users call it",
    "headrace/worker/*.process_instruction_id": "Beam calls it",
    "headrace/worker/task/live_socket.py: Printed.writable": "who prints may ask any stream",
    "headrace/worker/userstate/timers.py: TimerSink.maybe_flush": "Beam calls it",
}
#: Bases that call no method by a name; what has any other base but our own is not looked at.
PLAIN_BASES = {"ABC", "Enum", "Exception", "NamedTuple", "Protocol"}


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


def own_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Give the classes whose bases are all ours, or say nothing of who calls a method."""
    classes = [
        (path, node)
        for path, tree in trees().items()
        if path.startswith("headrace/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    ours = {node.name for _, node in classes}
    for _ in classes:  # until nothing changes any more
        alien = {
            node.name
            for _, node in classes
            if not {ast.unparse(b).partition("[")[0] for b in node.bases} <= ours | PLAIN_BASES
        }
        if not ours & alien:
            break
        ours -= alien
    return ((path, node) for path, node in classes if node.name in ours)


def members(node: ast.ClassDef) -> Iterator[str]:
    """Give the methods of a class and the attributes that they set."""
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) if each in node.body:
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def unused_members() -> list[str]:
    uses = Counter(name for tree in trees().values() for name in used(tree))
    return sorted(
        f"{path}: {node.name}.{name}"
        for path, node in own_classes()
        for name in {*members(node)}
        if not uses[name] and not (name.startswith("__") and name.endswith("__"))
    )


def test_no_method_and_no_attribute_is_left_without_a_use() -> None:
    known = MEMBERS_FOR_OTHERS
    assert [name for name in unused_members() if not any(fnmatchcase(name, k) for k in known)] == []


def test_no_name_of_a_module_is_left_without_a_use() -> None:
    assert [name for name in unused() if name not in FOR_TESTS] == []


def test_every_exception_is_still_one() -> None:
    assert set(FOR_TESTS) - set(unused()) == set()
    left = unused_members()
    used_after_all = [
        known for known in MEMBERS_FOR_OTHERS if not any(fnmatchcase(name, known) for name in left)
    ]
    assert used_after_all == []
