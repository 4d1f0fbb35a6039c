"""What is handed over in the worker has a type; `Any` is for what Beam's own code keeps to itself.

The numbers may only be lowered. There were six hundred uses once, half of them went, and without a
ceiling they all came back: where one is broken, the answer is a type. One of Beam's objects gets a
protocol in `worker/beam_types.py` or `worker/beam_operations.py`; what a user's pipeline has made
is a `Value`.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[2] / "headrace" / "worker"

#: How often `Any` may be written, by room; "" is what lies in none. Only ever to be lowered.
MOST = {
    "": 20,
    "batched": 20,
    "columns": 1,
    "exchange": 5,
    "grouping": 2,
    "sideinputs": 0,
    "sorting": 4,
    "task": 7,
    "userstate": 0,
}
#: Names that stand for `Any` and nothing else: another one would hide what these ceilings count.
ALIASES = {
    "CombineFn",
    "Data",
    "Key",
    "Meta",
    "Operation",
    "Proto",
    "Timer",
    "Value",
}


def is_any(node: ast.AST | None) -> bool:
    return (isinstance(node, ast.Name) and node.id == "Any") or (
        isinstance(node, ast.Attribute) and node.attr == "Any"
    )


def uses(source: str) -> int:
    """How often code, not counting imports and texts, says `Any`."""
    return sum(map(is_any, ast.walk(ast.parse(source))))


def aliases(source: str) -> set[str]:
    """The names of a module that stand for `Any`, or for one that does."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (
            is_any(node.value) or (isinstance(node.value, ast.Name) and node.value.id in ALIASES)
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, ast.ImportFrom):
            found.update(name.asname for name in node.names if name.name == "Any" and name.asname)
    return found


def sources() -> dict[Path, str]:
    found = {
        path.relative_to(WORKER): path.read_text(encoding="utf-8") for path in WORKER.rglob("*.py")
    }
    assert len(found) > 100  # else it is not the worker that was looked at
    return found


def test_no_room_of_the_worker_says_any_more_often_than_it_did() -> None:
    found: Counter[str] = Counter(dict.fromkeys(MOST, 0))
    for path, source in sources().items():
        found[path.parts[0] if len(path.parts) > 1 else ""] += uses(source)
    more = {room: count for room, count in found.items() if count > MOST.get(room, 0)}
    assert more == {}, "give a type; these ceilings may only be lowered"
    fewer = {room: count for room, count in found.items() if count < MOST.get(room, 0)}
    assert fewer == {}, "well done: lower the ceilings to these"


def test_no_further_name_stands_for_any() -> None:
    found = {name for source in sources().values() for name in aliases(source)}
    assert found == ALIASES


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from typing import Any\nx: dict[str, Any] = {}\ndef f(*a: Any) -> Any: ...", 3),
        ("import typing\nx: typing.Any = 1", 1),
        ('"""Any trigger."""\ny = any([])  # Any', 0),
    ],
)
def test_only_code_is_counted(source: str, count: int) -> None:
    assert uses(source) == count


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("Thing = Any", {"Thing"}),
        ("Thing: TypeAlias = Any\nOther: TypeAlias = Value", {"Thing", "Other"}),
        ("from typing import Any as Thing", {"Thing"}),
        ("Things = list[Any]\nx: Any = 1", set()),
    ],
)
def test_an_alias_is_known_as_one(source: str, names: set[str]) -> None:
    assert aliases(source) == names
