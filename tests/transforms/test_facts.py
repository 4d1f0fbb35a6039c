"""What the operators say of themselves, in docstrings and as data, and what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import transforms
from headrace.errors import OptionError
from headrace.transforms import (
    AverageBy,
    ContinuousWindow,
    Exchange,
    FilterMap,
    LeftJoin,
    MaximizeBy,
    MinimizeBy,
    Partition,
    Reduce,
    ReduceBy,
    ReduceTo,
    RollingCount,
    Session,
    TumblingWindow,
    Window,
    WindowJoin,
)

ROOT = Path(__file__).parents[2]
LINES = ("State", "Order", "Late", "Shard")


def closing_lines(docstring: str) -> dict[str, str]:
    """The four fixed lines, each with the lines that go on with it."""
    last = docstring.strip().split("\n\n")[-1]
    found = re.findall(r"^ *(\w+): (.*?)(?=^ *\w+: |\Z)", last, flags=re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in found}


@pytest.mark.parametrize("name", transforms.__all__)
def test_docstring_and_data_state_the_same_four_facts(name: str) -> None:
    operator = getattr(transforms, name)
    told = closing_lines(operator.__doc__)
    facts = operator.facts
    assert tuple(told) == LINES
    assert told == {line: getattr(facts, line.lower()) for line in LINES}
    assert ">>> replay(" in operator.__doc__


def test_every_operator_has_its_example_in_the_guide() -> None:
    page = (ROOT / "docs" / "guide" / "transforms.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL))
    assert [name for name in transforms.__all__ if f"{name}(" not in code] == []
    assert [name for name in transforms.__all__ if f"| `{name}` |" not in page] == []


def test_the_package_loads_no_operator_before_it_is_asked_for() -> None:
    program = "import sys, headrace.transforms; print('apache_beam' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_an_operator_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sort'"):
        transforms.Sort  # noqa: B018


def f(*_: Any) -> int:
    return 0


KEYS = {"key_left": f, "key_right": f, "join": f}
FOLD = {"key": f, "initial": 0, "reducer": f}
WHOLE = "a whole number from 1 up"
SECONDS = "a finite number of seconds, 0.001 or more"
FUNCTION = "a function"


@pytest.mark.parametrize(
    ("operator", "arguments", "name", "domain"),
    [
        (FilterMap, {"f": 3}, "f=3", FUNCTION),
        (WindowJoin, {**KEYS, "window": 0}, "window=0", SECONDS),
        (WindowJoin, {**KEYS, "join": None}, "join=None", FUNCTION),
        (LeftJoin, {**KEYS, "key_right": "id"}, "key_right='id'", FUNCTION),
        (Reduce, {**FOLD, "completer": f, "window": -1}, "window=-1", SECONDS),
        (Reduce, {**FOLD, "completer": 1}, "completer=1", FUNCTION),
        (ReduceBy, {**FOLD, "merge": 1}, "merge=1", "a function or None"),
        (ReduceTo, {"initial": 0, "reducer": None}, "reducer=None", FUNCTION),
        (AverageBy, {"key": f, "value": 1}, "value=1", FUNCTION),
        (MaximizeBy, {"key": f, "value": f, "window": float("nan")}, "window=nan", SECONDS),
        (MinimizeBy, {"key": f, "value": f, "window": float("inf")}, "window=inf", SECONDS),
        (RollingCount, {"key": f, "out": 0}, "out=0", FUNCTION),
        (Window, {"size": 0, "slide": 1, "interval": 1}, "size=0", WHOLE),
        (Window, {"size": 2, "slide": 0, "interval": 1}, "slide=0", "a whole number from 1 to 2"),
        (Window, {"size": 2, "slide": 3, "interval": 1}, "slide=3", "a whole number from 1 to 2"),
        (Window, {"size": 2, "slide": 1, "interval": True}, "interval=True", SECONDS),
        (TumblingWindow, {"size": 1.5, "interval": 1}, "size=1.5", WHOLE),
        (TumblingWindow, {"size": 1, "interval": 1, "time": 2}, "time=2", "a function or None"),
        (Session, {"timeout": -5, "key": f}, "timeout=-5", SECONDS),
        (Partition, {"size": 0, "key": f}, "size=0", WHOLE),
        (Partition, {"size": True, "key": f}, "size=True", WHOLE),
        (Exchange, {"key": 1}, "key=1", FUNCTION),
        (ContinuousWindow, {"key": f, "count": 0}, "count=0", WHOLE),
        (ContinuousWindow, {"key": f, "span": -1.0}, "span=-1.0", SECONDS),
        (ContinuousWindow, {"key": f, "count": 1, "combine": 1}, "combine=1", "a function or None"),
    ],
)
def test_an_argument_outside_its_domain_is_refused_with_the_domain(
    operator: Any, arguments: dict[str, Any], name: str, domain: str
) -> None:
    with pytest.raises(OptionError) as caught:
        operator(**arguments)
    assert str(caught.value) == f"{name} is outside its domain: {domain}"


@pytest.mark.parametrize("both", [{}, {"count": 1, "span": 1}])
def test_a_continuous_window_needs_a_count_or_a_span_and_not_both(both: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="give one of them and not the other"):
        ContinuousWindow(key=f, **both)  # type: ignore[arg-type]
