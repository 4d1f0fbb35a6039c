"""Nothing is imported in a circle: not modules, not rooms, not what lies in one folder.

Two kinds of import are no way out of a circle and so count like any other. One inside a function
only moves the failure to the call, and a reader still must know both modules to know one. One for
type checkers alone is never run, but it says as well that neither can be understood first. What is
loaded by name, as the lab's experiments are, is not seen here; the import table says who loads.

A folder's `__init__.py` is its door: it may hand out what lies in the folder, and nobody in there
comes through it. So it counts as an importer of what it hands out, not as one of the folder's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.graph import circles
from tests.architecture.imports import Import, imports_of, modules_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "headrace"
#: Modules that lie at the top of a folder, though the folders beside them import them and others at
#: the top import those folders: the words that all of them share. The reason of each.
SHARED = {
    "headrace.errors": "what a user can meet; the import table opens it to every room",
    "headrace.engine.host": "what a run asks of the place where its tasks run",
    "headrace.engine.leftovers": "folders that end with their process, for whoever makes one",
    "headrace.engine.status": "what a streaming run shows of itself",
    "headrace.engine.tasks": "what a task must know, whoever lays it out",
    "headrace.lab.catalog": "which workloads there are",
    "headrace.lab.commands": "numbers, places and quiet logs, for the command of every experiment",
    "headrace.lab.environments": "where packages of one system alone are installed",
    "headrace.lab.meter": "what processes use",
    "headrace.lab.slow_disk": "a disk that takes its time, for faults in any room",
    "headrace.lab.spec": "what a run is asked for",
    "headrace.lab.verdict": "whether rows are the right ones",
    "headrace.lab.workload": "what a workload is: the word that the whole lab is about",
    "headrace.worker.beam_operations": "names for Beam's operations, which has none",
    "headrace.worker.beam_types": "names for Beam's types, which has none",
    "headrace.worker.protocol": "what the driver hands to a task, which opens it part by part",
}


@cache
def ours() -> tuple[Import, ...]:
    modules = modules_of(PACKAGE)
    return tuple(
        made for made in imports_of(PACKAGE)
        if made.imported in modules and made.imported != made.importer
    )


@cache
def folders() -> frozenset[str]:
    return frozenset(
        name for name, path in modules_of(PACKAGE).items() if path.name == "__init__.py"
    )


def entry(folder: str, module: str) -> str | None:
    """What lies in the folder and holds the module: itself, or the folder that it is in."""
    if not module.startswith(f"{folder}."):
        return None
    return module.removeprefix(f"{folder}.").partition(".")[0]


def within(folder: str, imports: Iterable[Import]) -> set[tuple[str, str]]:
    """Who imports whom among what lies in one folder."""
    pairs = {(entry(folder, made.importer), entry(folder, made.imported)) for made in imports}
    return {(a, b) for a, b in pairs if a is not None and b is not None and a != b}


def shared_words(imports: Iterable[Import], folders: frozenset[str]) -> Mapping[str, set[str]]:
    """Modules at the top of a folder that one of its folders imports, which the top imports too.

    Each with the folders for which that is so.
    """
    down: set[tuple[str, str]] = set()  # folder at the top, folder in it
    up: dict[tuple[str, str], set[str]] = {}
    for made in imports:
        above, below = _home(made.importer, folders), _home(made.imported, folders)
        if below.startswith(f"{above}.") and made.importer not in folders:
            down.add((above, below))
        if above.startswith(f"{below}.") and made.imported not in folders:
            up.setdefault((below, above), set()).add(made.imported)
    found: dict[str, set[str]] = {}
    for pair in down & up.keys():
        for module in up[pair]:
            found.setdefault(module, set()).add(pair[1])
    return found


def _home(module: str, folders: frozenset[str]) -> str:
    return module if module in folders else module.rpartition(".")[0]


def test_no_module_is_imported_by_what_it_imports() -> None:
    assert circles((made.importer, made.imported) for made in ours()) == ()


@pytest.mark.parametrize("folder", sorted(folders()))
def test_what_lies_in_a_folder_can_be_put_in_an_order(folder: str) -> None:
    """For `headrace` itself these are the rooms."""
    assert circles(within(folder, ours())) == ()


def test_a_folder_and_one_in_it_ask_for_each_other_by_shared_words_alone() -> None:
    found = shared_words(ours(), folders())
    assert {name: found[name] for name in found if name not in SHARED} == {}


def test_every_shared_word_is_still_needed_as_one() -> None:
    assert set(SHARED) - set(shared_words(ours(), folders())) == set()


def made(*pairs: tuple[str, str]) -> tuple[Import, ...]:
    return tuple(Import(importer=a, imported=b, line=1) for a, b in pairs)


def test_a_circle_of_three_is_found_and_a_way_without_return_is_not() -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a"), ("d", "d")]
    assert circles(pairs) == (("a", "b", "c"),)


def test_two_circles_are_told_apart() -> None:
    assert circles([("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]) == (
        ("a", "b"),
        ("c", "d"),
    )


def test_folders_that_import_each_other_are_a_circle_though_no_module_is() -> None:
    imports = made(("p.one.a", "p.two.b"), ("p.two.c", "p.one.d"))
    assert circles((i.importer, i.imported) for i in imports) == ()
    assert circles(within("p", imports)) == (("one", "two"),)


def test_a_module_at_the_top_that_its_folder_imports_back_is_a_shared_word() -> None:
    there = frozenset({"p", "p.one"})
    both = made(("p.top", "p.one.a"), ("p.one.b", "p.word"))
    assert shared_words(both, there) == {"p.word": {"p.one"}}
    assert shared_words(both[1:], there) == {}
    assert shared_words(made(("p", "p.one.a"), ("p.one.b", "p.word")), there) == {}
