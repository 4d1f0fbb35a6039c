"""The import table of docs/architecture.md, held against the package."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.imports import Import, imports_of, modules_of, reachable
from tests.architecture.table import OPEN_TO_ALL, Rule, Table, covers, read_table

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "headrace"
TABLE = read_table((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


@cache
def all_imports() -> tuple[Import, ...]:
    """Read when a test asks: every process of a run loads this module, and one of them needs it."""
    return imports_of(PACKAGE)


def below_package(module: str) -> str | None:
    """`headrace.plan.ids` -> `plan.ids`; `headrace` -> `headrace`; None for what is not ours."""
    if module == "headrace":
        return "headrace"
    return module.removeprefix("headrace.") if module.startswith("headrace.") else None


def breach(made: Import, table: Table) -> str | None:
    """Say which rule an import breaks, or None when it breaks none."""
    importer = below_package(made.importer)
    assert importer is not None
    rule = table.rule_for(importer)
    if rule is None:
        return f"{made.importer} has no row in the table"
    ours = below_package(made.imported)
    where = f"{made.importer}:{made.line} imports {made.imported}"
    if ours is not None:
        return None if rule.allows_ours(ours) else f"{where}, which `{rule.room}` may not"
    top = made.imported.partition(".")[0]
    if top in sys.stdlib_module_names or rule.allows_outside(top):
        return None
    return f"{where}, an outside package that `{rule.room}` may not use"


def forbidden_reach(rule: Rule, imports: tuple[Import, ...]) -> list[str]:
    """Every chain of imports by which a module of the rule's room reaches what it never may."""
    chains = []
    importers = {made.importer for made in imports}
    for start in sorted(module for module in importers if _is_of(module, rule)):
        for module, chain in reachable(start, imports).items():
            if rule.forbids(below_package(module) or module):
                chains.append(" -> ".join(chain))
    return chains


def _is_of(module: str, rule: Rule) -> bool:
    return _rule_of(module) is rule


@cache
def _rule_of(module: str) -> Rule | None:
    return TABLE.rule_for(below_package(module) or "")


def test_every_import_is_allowed_by_the_table() -> None:
    broken = [text for made in all_imports() if (text := breach(made, TABLE)) is not None]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("rule", TABLE.rules, ids=lambda rule: rule.room)
def test_what_a_room_may_import_it_does_import(rule: Rule) -> None:
    """A permission that nobody uses is a door in a wall that looks closed."""
    made = {each.imported for each in all_imports() if _is_of(each.importer, rule)}
    ours = {below for module in made if (below := below_package(module)) is not None}
    unused = [name for name in rule.ours if not any(covers(name, module) for module in ours)]
    unused += [name for name in rule.outside if not any(covers(name, module) for module in made)]
    assert not unused


def test_every_module_has_a_row() -> None:
    homeless = [
        name for name in modules_of(PACKAGE) if TABLE.rule_for(below_package(name) or "") is None
    ]
    assert not homeless


def test_every_folder_has_a_row_of_its_own() -> None:
    """Else it would have that of the folder around it, which nobody wrote for it."""
    folders = {
        below_package(name) for name, path in modules_of(PACKAGE).items() if path.stem == "__init__"
    }
    assert folders - {rule.room for rule in TABLE.rules} == set()


@pytest.mark.parametrize("rule", TABLE.rules, ids=lambda rule: rule.room)
def test_what_a_room_may_never_import_is_not_reached_through_others(rule: Rule) -> None:
    assert not forbidden_reach(rule, all_imports())


def test_no_row_allows_what_it_also_forbids() -> None:
    for rule in TABLE.rules:
        both = [name for name in (*rule.ours, *rule.outside) if rule.forbids(name)]
        assert not both, f"{rule.room}: {both}"


def test_rows_name_only_rooms_that_have_a_row_themselves() -> None:
    rooms = {rule.room.partition(".")[0] for rule in TABLE.rules}
    for rule in TABLE.rules:
        unknown = [name for name in rule.ours if name.partition(".")[0] not in rooms]
        assert not unknown, f"{rule.room}: {unknown}"
    assert OPEN_TO_ALL in rooms


def test_the_walls_that_keep_tests_free_of_a_jvm_are_in_the_table() -> None:
    """Guards the page itself: a row loosened by accident would let the other tests pass."""
    for room in ("errors", "plan", "state", "transforms", "compiler", "worker"):
        rule = TABLE.rule_for(room)
        assert rule is not None and rule.forbids("pyspark"), room
    state = TABLE.rule_for("state")
    assert state is not None and state.forbids("apache_beam")
    assert covers("worker", "worker.entry") and not covers("worker", "workers")
