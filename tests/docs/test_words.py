"""The glossary's promise: a word has one meaning, and words that had several are gone."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "headrace"
GLOSSARY = ROOT / "docs" / "glossary.md"
#: What was decided or done under the old words keeps them.
HISTORY = ("docs/decisions/", "CHANGELOG.md", "docs/glossary.md")
#: Words that are plain English in prose: only names are looked at, and not those of the lab, whose
#: kept files have them as keys.
IN_PROSE = {"told"}


def cells(part: str) -> list[list[str]]:
    """Give the rows of the tables of a part of the page, without their heads."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    found = [line.strip("| ").split(" | ") for line in lines]
    return [row for row in found if row[0] not in ("word", "not")]


PAGE = GLOSSARY.read_text(encoding="utf-8")
WORDS, _, GONE = PAGE.partition("## Words that we no longer use")
#: For each word the files in which a class or a module may be named like it.
FILES = {word: re.findall(r"`([^`]+)`", code) for word, _, code in cells(WORDS)}


def texts() -> list[tuple[str, str]]:
    """Give every module of the package and every page, but those that tell of the past."""
    paths = [*ROOT.glob("headrace/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    names = [(path.relative_to(ROOT).as_posix(), path) for path in paths]
    return [
        (name, path.read_text(encoding="utf-8"))
        for name, path in names
        if not name.startswith(HISTORY)
    ]


TEXTS = texts()


def parts_of(name: str) -> tuple[str, ...]:
    """Take a name apart."""
    return tuple(part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name))


def spellings(part: str) -> set[str]:
    """Give a part of a name and its plural, as in shelf and shelves."""
    return {part, f"{part}s", re.sub("fe?$", "ves", part)}


@cache
def names_in_code() -> dict[str, set[str]]:
    """Give every name of the package's code, and the modules that have it."""
    found: dict[str, set[str]] = {}
    for path, text in TEXTS:
        if path.endswith(".py"):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME:
                    found.setdefault(token.string, set()).add(path)
            found.setdefault(Path(path).stem, set()).add(path)
    return found


def has(name: str, gone: str) -> bool:
    """Whether a name has a word that is gone in it; one in capitals is looked for in constants."""
    if gone.isupper() and not name.isupper():
        return False
    if gone.lower() in {f"{word}s" for word in FILES}:
        return name == gone  # the word itself is in use
    parts, wanted = parts_of(name), parts_of(gone)
    last = spellings(wanted[-1])
    return any(
        parts[at : at + len(wanted) - 1] == wanted[:-1] and parts[at + len(wanted) - 1] in last
        for at in range(len(parts) - len(wanted) + 1)
    )


def named_like_words() -> Iterator[tuple[str, str]]:
    """Give the words after which classes and modules are named, each with the file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        folder = file.removesuffix("__init__.py")
        names = [path.parent.name if folder != file else path.stem]
        if file.startswith("lab/"):
            names.clear()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                    names.append(name)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    names.append(name)
        public = (name for name in names if not name.startswith("_") and not name.isupper())
        parts = {*map(parts_of, public)}
        for word in FILES:
            wanted = tuple(re.split("[ -]", word))
            if parts & {(*wanted[:-1], last) for last in spellings(wanted[-1])}:
                yield word, folder


def test_every_row_of_the_tables_is_read() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert len(lines) == len(cells(PAGE)) + 4  # a head and a rule for each of both tables
    assert {len(row) for row in cells(WORDS)} == {3}
    assert {len(row) for row in cells(GONE)} == {2}


@pytest.mark.parametrize("part", [WORDS, GONE], ids=["used", "gone"])
def test_a_word_stands_once_and_in_order(part: str) -> None:
    words = [row[0].strip("`") for row in cells(part)]
    assert len(words) > 10
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("_standing_now", "Standing", True), ("understanding", "Standing", False),
        ("_SHELVES", "Shelf", True), ("_shelf", "Shelf", True),
        ("_PLACES_PER_ROW", "PLACES", True), ("places", "PLACES", False),
        ("LocalPlaces", "LocalPlace", True), ("LocalFolder", "LocalPlace", False),
        ("may_open_unit_of", "open_unit", True), ("open_file_unit", "open_unit", False),
        ("_NoHomeError", "NoHome", True), ("toldest", "told", False),
    ],
)  # fmt: skip
def test_a_word_is_found_in_every_form_of_a_name(name: str, word: str, expected: bool) -> None:
    assert has(name, word) is expected


@pytest.mark.parametrize("word", [row[0].strip("`") for row in cells(GONE)])
def test_a_word_that_we_no_longer_use_is_gone(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])(?!\.md)")
    found = [name for name, text in TEXTS if word not in IN_PROSE and pattern.search(text)]
    assert not found


@pytest.mark.parametrize("word", [row[0].strip("`") for row in cells(GONE)])
def test_a_word_that_we_no_longer_use_is_no_part_of_a_name(word: str) -> None:
    found = {name: paths for name, paths in names_in_code().items() if has(name, word)}
    if word in IN_PROSE:
        lab = {name for name, _ in TEXTS if name.startswith("headrace/lab/")}
        found = {name: paths - lab for name, paths in found.items() if paths - lab}
    assert not found


def test_classes_and_modules_are_named_like_a_word_where_the_glossary_says() -> None:
    allowed = {(word, file) for word, files in FILES.items() for file in files}
    assert {*named_like_words()} == allowed
