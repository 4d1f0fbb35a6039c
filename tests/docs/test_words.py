"""The glossary's promise: a word has one meaning, and words that had several are gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
#: What was decided or done under the old words keeps them.
HISTORY = ("docs/decisions/", "CHANGELOG.md", "docs/glossary.md")


def rows(part: str) -> list[tuple[str, str]]:
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", part, re.M)
    return [row for row in found if row[1] not in ("meaning", "but")]


PAGE = GLOSSARY.read_text(encoding="utf-8")
WORDS, _, GONE = PAGE.partition("## Words that we no longer use")


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


def test_a_word_stands_once_and_in_order() -> None:
    words = [word for word, _ in rows(WORDS)]
    assert len(words) > 30
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize("word", [word.strip("`") for word, _ in rows(GONE)])
def test_a_word_that_we_no_longer_use_is_gone(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])(?!\.md)")
    found = [name for name, text in TEXTS if pattern.search(text)]
    assert not found
