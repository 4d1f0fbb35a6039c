"""The walk of one element in docs/architecture.md: every function exists, no room is left twice."""

from __future__ import annotations

import importlib
import re
from itertools import groupby
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def legs() -> list[list[str]]:
    """Give the lists of the walk, as full dotted names."""
    page = PAGE.read_text(encoding="utf-8")
    walk = page.partition("## The walk of one element")[2].partition("\n## ")[0]
    found: list[list[str]] = []
    for number, name in re.findall(r"^(\d+)\. `([\w.]+)`$", walk, re.M):
        if number == "1":
            found.append([])
        found[-1].append(name)
    return found


def module_of(name: str) -> list[str]:
    """Give the longest beginning of a name that is a module."""
    parts = name.split(".")
    return parts[: next(i for i in range(len(parts), 0, -1) if _is_module(parts[:i]))]


def room_of(name: str) -> str:
    """`headrace.worker.task.shard.ShardRun.push` -> `worker.task`; the front doors are rooms."""
    *folders, module = module_of(name)[1:]
    return ".".join(folders) or module


def _is_module(parts: list[str]) -> bool:
    try:
        importlib.import_module(".".join(parts))
    except ImportError:
        return False
    return True


def test_there_are_four_legs() -> None:
    assert [len(leg) for leg in legs()] == [7, 7, 8, 4]


def test_every_function_exists() -> None:
    for name in (name for leg in legs() for name in leg):
        module = module_of(name)
        found = importlib.import_module(".".join(module))
        for part in name.split(".")[len(module) :]:
            assert hasattr(found, part), name
            found = getattr(found, part)
        assert callable(found), name


def test_no_leg_comes_back_to_a_room_that_it_has_left() -> None:
    for leg in legs():
        rooms = [room for room, _ in groupby(map(room_of, leg))]
        assert len(rooms) == len(set(rooms)), rooms
