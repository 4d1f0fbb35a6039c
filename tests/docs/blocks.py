"""Decides which parts of a Markdown page are code to run, and what they must print.

Takes the text of a page, gives its `Block`s in order. Runs nothing: `test_pages.py` does.

The info string after the fence says what a block is:

    ```python            run it
    ```python session    run it with the tests' Spark session as `spark`
    ```text output       what the code block just above must print

A comment says which modules a page needs that not everybody has; without them it is skipped:

    <!-- needs: jsonschema, docstring_parser -->

Other languages are left alone; a Python block with any other word is an error, so that a
misspelt word cannot take an example out of the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

FENCE = "```"
NEEDS = re.compile(r"<!-- needs: ([\w., ]+) -->")


class PageError(Exception):
    """A page has a fence that is not closed, or an info string that means nothing here."""


class Need(Enum):
    """What must be there for a block to run."""

    NOTHING = "nothing"  # plain Python
    SESSION = "session"  # a running Spark session, handed in as `spark`


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One piece of code on a page."""

    line: int  # of the first line of code, counted from 1
    source: str
    need: Need
    prints: str | None  # None: the page says nothing about what is printed


def read_blocks(page: str) -> tuple[Block, ...]:
    """Find the Python blocks of a page, each with the output the page promises for it."""
    blocks: list[Block] = []
    for line, info, source in _fences(page):
        match info.split():
            case ["python"]:
                blocks.append(Block(line=line, source=source, need=Need.NOTHING, prints=None))
            case ["python", "session"]:
                blocks.append(Block(line=line, source=source, need=Need.SESSION, prints=None))
            case ["python", *words]:
                message = f"line {line - 1}: unknown words after python: {' '.join(words)}"
                raise PageError(message)
            case ["text", "output"]:
                if not blocks or blocks[-1].prints is not None:
                    message = f"line {line - 1}: output with no code above it"
                    raise PageError(message)
                blocks[-1] = replace(blocks[-1], prints=source)
            case ["text", *words] if words:
                message = f"line {line - 1}: unknown words after text: {' '.join(words)}"
                raise PageError(message)
            case _:
                pass
    return tuple(blocks)


def needed_modules(page: str) -> tuple[str, ...]:
    """The modules without which the page's code cannot run."""
    return tuple(
        name.strip() for comment in NEEDS.findall(page) for name in comment.split(",")
    )


def _fences(page: str) -> list[tuple[int, str, str]]:
    """Every fenced block as (line of its first content, info string, content)."""
    found: list[tuple[int, str, str]] = []
    inside: tuple[int, str, list[str]] | None = None
    for number, text in enumerate(page.splitlines(), start=1):
        if inside is None:
            if text.startswith(FENCE):
                inside = (number + 1, text[len(FENCE) :].strip(), [])
        elif text.rstrip() == FENCE:
            line, info, content = inside
            found.append((line, info, "".join(f"{each}\n" for each in content)))
            inside = None
        else:
            inside[2].append(text)
    if inside is not None:
        message = f"line {inside[0] - 1}: the fence is never closed"
        raise PageError(message)
    return found
