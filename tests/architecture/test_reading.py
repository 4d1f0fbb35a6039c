"""The readers behind the import table, on cases written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.imports import Import, imports_of, reachable
from tests.architecture.table import Table, TableError, read_table
from tests.architecture.test_import_table import breach

HEAD = (
    "| room | may import (ours) | may import (outside) | never, not even through others |\n"
    "|---|---|---|---|\n"
)


def table(*rows: str) -> Table:
    return read_table("# Page\n\n" + HEAD + "\n".join(rows) + "\n\nProse after the table.\n")


def package(tmp_path: Path, **sources: str) -> Path:
    """Write a package `pkg`; `a__b="..."` becomes `pkg/a/b.py`."""
    root = tmp_path / "pkg"
    for name, source in {"__init__": "", **sources}.items():
        path = root.joinpath(*name.split("__")) if "__init__" not in name else root / name
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return root


def imported_by(root: Path, module: str) -> list[str]:
    return [made.imported for made in imports_of(root) if made.importer == module]


def test_a_row_gives_its_names_and_nothing_gives_none() -> None:
    rule = table("| `state` | `plan` | `lmdb`, `numpy` | nothing |").rule_for("state.memory")
    assert rule is not None
    assert (rule.ours, rule.outside, rule.never) == (("plan",), ("lmdb", "numpy"), ())


def test_the_most_exact_row_holds() -> None:
    read = table(
        "| `worker` | nothing | nothing | nothing |",
        "| `worker.entry` | `plan` | nothing | nothing |",
    )
    exact, general = read.rule_for("worker.entry"), read.rule_for("worker.stage")
    assert exact is not None and exact.allows_ours("plan.ids")
    assert general is not None and not general.allows_ours("plan.ids")


def test_a_module_that_only_begins_like_a_room_has_no_row() -> None:
    assert table("| `io` | nothing | nothing | nothing |").rule_for("iox") is None


@pytest.mark.parametrize(
    "rows",
    [
        ["| `io` | plan | nothing | nothing |"],
        ["| `io` | `plan` and more | nothing | nothing |"],
        ["| `io` | `plan` | nothing |"],
        ["| `io` | nothing | nothing | nothing |", "| `io` | `plan` | nothing | nothing |"],
    ],
    ids=["no backquotes", "prose beside a name", "a cell missing", "a room twice"],
)
def test_a_table_that_cannot_be_read_exactly_is_refused(rows: list[str]) -> None:
    with pytest.raises(TableError):
        table(*rows)


def test_a_page_without_the_table_is_refused() -> None:
    with pytest.raises(TableError, match="found 0"):
        read_table("# Page\n\n| a | b |\n|---|---|\n")


def test_imports_are_found_in_functions_and_under_type_checking(tmp_path: Path) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pyspark.sql\n"
        "def later():\n    from lmdb import Environment\n"
        "    return import_module('rich.progress')\n"
    )
    assert imported_by(package(tmp_path, one=source), "pkg.one") == [
        "typing",
        "pyspark.sql",
        "lmdb",
        "rich.progress",
    ]


def test_a_module_and_an_object_are_told_apart(tmp_path: Path) -> None:
    root = package(tmp_path, room__ids="StageId = str\n", use="from pkg.room import ids\n")
    (root / "thing.py").write_text("from pkg.room.ids import StageId\n", encoding="utf-8")
    assert imported_by(root, "pkg.use") == ["pkg.room.ids"]
    assert imported_by(root, "pkg.thing") == ["pkg.room.ids"]


def test_relative_imports_are_resolved(tmp_path: Path) -> None:
    root = package(tmp_path, room__ids="", room__use="from . import ids\nfrom ..other import x\n")
    assert imported_by(root, "pkg.room.use") == ["pkg.room.ids", "pkg.other"]


def test_reach_gives_the_shortest_chain() -> None:
    edges = (("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c"), ("c", "a"))
    made = tuple(Import(importer=x, imported=y, line=1) for x, y in edges)
    assert reachable("a", made)["c"] == ("a", "b", "c")


@pytest.mark.parametrize(
    ("imported", "fault"),
    [
        ("headrace.plan.ids", None),
        ("headrace.errors", None),
        ("headrace.state.store", None),
        ("json", None),
        ("lmdb", None),
        ("headrace.engine", "`state` may not"),
        ("headrace", "`state` may not"),
        ("pyspark.sql", "an outside package"),
    ],
)
def test_a_breach_names_the_import_and_the_room(imported: str, fault: str | None) -> None:
    read = table("| `state` | `plan` | `lmdb` | nothing |")
    said = breach(Import(importer="headrace.state.store", imported=imported, line=7), read)
    if fault is None:
        assert said is None
    else:
        assert said is not None and fault in said and "headrace.state.store:7" in said
